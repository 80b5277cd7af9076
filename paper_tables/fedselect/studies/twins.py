"""Twin rounds of FedSelect's Table 3 at the reduced scale: what each option changes in one round.

python paper_tables/fedselect/studies/twins.py    # writes twins.csv
"""

from __future__ import annotations

from repfl.paper_tables.core import studies
from repfl.paper_tables.core.studies.twin_rounds import study


def main() -> None:
    """Write the numbers, and print them."""
    frame = study(
        "fedselect/table3", column="cifar10", row="FedSelect, α = 0.30", seed=1, rounds=(1, 4, 12)
    )
    studies.write(__file__, frame, "%.6g")
    print(frame.to_string())


if __name__ == "__main__":
    main()

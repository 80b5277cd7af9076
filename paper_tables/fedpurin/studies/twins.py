"""Twin rounds of FedPURIN's Table 2 at the reduced scale: what each option changes in one round.

python paper_tables/fedpurin/studies/twins.py    # writes twins.csv
"""

from __future__ import annotations

from repfl.paper_tables.studies import write
from repfl.paper_tables.studies.twin_rounds import study


def main() -> None:
    """Write the numbers, and print them."""
    frame = study(
        "fedpurin/table2",
        column="cifar10-dir0.1",
        row="exact g, H off",
        seed=1,
        rounds=(1, 2, 4, 8),
    )
    write(__file__, frame, "%.6g")
    print(frame.to_string())


if __name__ == "__main__":
    main()

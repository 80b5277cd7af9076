"""Twin rounds of FedOBP's Table V at the reduced scale: what each option changes in one round.

python paper_tables/fedobp/studies/twins.py    # writes twins.csv
"""

from __future__ import annotations

from repfl.paper_tables.studies import write
from repfl.paper_tables.studies.twin_rounds import study


def main() -> None:
    """Write the numbers, and print them."""
    frame = study(
        "fedobp/table5",
        column="cifar10-dir0.1",
        row="NoNorm, as defined",
        seed=42,
        rounds=(1, 5, 20),
    )
    write(__file__, frame, "%.6g")
    print(frame.to_string())


if __name__ == "__main__":
    main()

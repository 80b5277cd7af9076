"""The front picture shows every re-run number once, at its values, in the colour of its verdict."""

from __future__ import annotations

from matplotlib.colors import to_hex

from repfl.bench.report import front_picture
from repfl.bench.report.numbers import Number
from repfl.paper_tables.core.statistics.verdict import Kind, Verdict


def number(printed: float, ours: float, verdict: Verdict, source: str, **fields: object) -> Number:
    values = {"kind": str(Kind.TRAINED), "unit": "%", **fields}
    return Number(
        "paper",
        "table1",
        f"{source}-{ours}",
        "FedAvg, long name",
        "column",
        "CIFAR-10",
        printed=printed,
        ours=ours,
        difference=ours - printed,
        verdict=str(verdict),
        source=source,
        **values,  # type: ignore[arg-type]
    )


SHOWN = [
    number(80.0, 80.5, Verdict.REPRODUCED, "table1.csv:2"),
    number(70.0, 71.5, Verdict.UNDECIDED, "table1.csv:3"),
    number(60.0, 75.0, Verdict.DIFFERS, "author_logs.csv:4"),
    number(61.0, 62.0, Verdict.UNDECIDED, "author_logs.csv:5"),
]
LEFT_OUT = [
    number(50.0, 51.0, Verdict.OTHER_SCALE, "table1.csv:6"),
    number(10.0, 10.0, Verdict.REPRODUCED, "table1.csv:7", kind=str(Kind.LOOKUP)),
    number(5.0, 5.0, Verdict.REPRODUCED, "table1.csv:8", unit="MiB"),
]


def test_every_re_run_number_stands_once_at_its_values_in_its_colour() -> None:
    assert front_picture.shown([*SHOWN, *LEFT_OUT]) == SHOWN
    (axes,) = front_picture.draw(front_picture.shown([*SHOWN, *LEFT_OUT]), "abc").axes
    points = {
        (float(x), float(y), to_hex(each.get_edgecolor()[0]), len(each.get_facecolor()) > 0)
        for each in axes.collections
        for x, y in each.get_offsets()
    }
    assert axes.get_xlabel().startswith("theirs")  # the first of each pair below
    assert axes.get_ylabel().startswith("ours")
    blue, red = "#0173b2", "#d55e00"
    assert points == {
        (80.0, 80.5, blue, True),
        (70.0, 71.5, blue, True),
        (60.0, 75.0, red, False),
        (61.0, 62.0, blue, False),
    }
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [label.rpartition("(")[2] for label in labels] == ["2)", "1)", "1)"]
    title = axes.get_title(loc="left")
    assert title.startswith("Of 2 re-run printed accuracies none differs")
    assert title.endswith("of 2 logged values 1 do")
    assert any("FedAvg, CIFAR-10" in text.get_text() for text in axes.texts)

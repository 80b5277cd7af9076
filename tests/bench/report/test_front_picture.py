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


def test_every_re_run_number_is_a_line_with_its_difference_in_its_colour() -> None:
    assert front_picture.shown([*SHOWN, *LEFT_OUT]) == SHOWN
    twice = [number(80.0, 80.5, Verdict.REPRODUCED, f"table{n}.csv:2", runs=("a",)) for n in (1, 2)]
    assert front_picture.shown(twice) == twice[:1]
    canvas = front_picture.draw(front_picture.shown([*SHOWN, *LEFT_OUT]), "abc")
    green, purple, red = "#0a7d4f", "#6f4fb0", "#b4370f"
    drawn = []
    for axes in canvas.axes:
        marks = [each for each in axes.lines if each.get_marker() == "o" and len(each.get_xdata())]
        drawn.append([(float(m.get_xdata()[0]), to_hex(m.get_color())) for m in marks])
        names = [text.get_text() for text in axes.get_yticklabels()]
        assert names == ["FedAvg, CIFAR-10"] * 2
        assert axes.get_xlabel().startswith("ours minus theirs")
    assert drawn == [[(0.5, green), (1.5, purple)], [(1.0, purple), (15.0, red)]]
    titles = [axes.get_title(loc="left") for axes in canvas.axes]
    assert titles == ["2 accuracies in print", "2 values of authors' logs"]
    said = canvas.get_suptitle()
    assert said.startswith("Of 2 re-run printed accuracies none differs")
    assert "of 2 logged values 1 do" in said
    assert "commit abc" in said


def test_an_interval_and_a_stale_run_are_shown() -> None:
    long = number(60.0, 75.0, Verdict.DIFFERS, "table1.csv:9", tier="committed, stale",
                  difference_low=8.0, difference_high=40.0)  # fmt: skip
    (axes,) = front_picture.draw([long], "abc").axes
    ends = [list(map(float, each.get_xdata())) for each in axes.lines if len(each.get_xdata()) == 2]
    assert [8.0, 18.0] in ends
    assert any(each.get_marker() == ">" for each in axes.lines)
    faces = [to_hex(each.get_markerfacecolor()) for each in axes.lines if each.get_marker() == "o"]
    assert "#ffffff" in faces

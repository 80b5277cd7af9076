"""Words of the pages: scales, glossary, columns of csv files, search, citation."""

from __future__ import annotations

import re

from repfl.bench.report.links import anchor, slug
from repfl.bench.report.numbers import Number
from repfl.bench.report.sheet import Book, Sheet
from repfl.bench.report.site.leaderboard import Leaderboard
from repfl.paper_tables.core.drawing import captions
from repfl.paper_tables.core.statistics.verdict import Kind

SCALES = {
    "paper": (captions.SCALES["paper"], "the paper's own protocol, as far as it is known"),
    "desk": (
        captions.SCALES["desk"],
        "real data with fewer rounds, clients or seeds, or a smaller model; it decides nothing",
    ),
    "smoke": (
        captions.SCALES["smoke"],
        "embedded digits, tiny models, few rounds: tests the software, is compared with no paper",
    ),
}
BIBTEX = """@software{repfl,
  title  = {repfl: a benchmark suite with a reproducibility harness
            for personalised federated learning},
  author = {{The repfl authors}},
  year   = {2026}, version = {0.1.0},
  note   = {commit COMMIT}
}"""
GLOSSARY = {
    "baseline": "A method that others are compared with. FedAvg, FedAvg + FT (FedAvg with local"
    " fine-tuning) and Local (training alone) are in nearly every table.",
    "billing run": "A run of a few rounds on embedded images, made for bytes and operations, which"
    " do not depend on the images. Its accuracy means nothing.",
    "cell": "One run to be made: a method, its options, a recipe and a seed.",
    "claim": "A sentence of a paper that its numbers can confirm or refute. Each paper has a page"
    " of claims.",
    "client": "One participant with its own data. Accuracies are averaged over clients unless a"
    " table says that predictions are pooled.",
    "computed exactly": "A number that follows from sizes alone, such as the bytes of a model.",
    "Dirichlet split, Dir(α)": "The share of each class that a client gets is drawn from a"
    " Dirichlet distribution with parameter α. Small α: clients hold few classes.",
    "fine-tuning (FT)": "Training of the global model on a client's own data before it is"
    " evaluated. “Tuned rate”: its learning rate was tuned as well.",
    "GPU": "Every command takes --device cuda. A GPU gives other bits than a CPU and, within noise,"
    " the same accuracies. The page of a number names the device of each run.",
    "learning rate": "As the paper says, in its tables; tuned by random search on validation"
    " images, in the leaderboard. The page of a method lists the tuned values.",
    "log value": "A number from the log files that the authors published.",
    "majority class": "The accuracy of always predicting a client's most frequent class. It stands"
    " in the last line of tables of accuracies.",
    "margin": "One percentage point to either side. Differences inside it do not matter here.",
    "metadata": "A number that is read from a configuration or from a data set's own publication.",
    "seed": "Fixes partition, initial values, client sampling and order of batches. Methods share"
    " them, so runs of one seed are compared in pairs. A repeated run gives the same bits.",
    "unseen clients": "Clients that join after training.",
    "upload, download, traffic": "Bytes of every message: values, masks and indices. Tables show"
    " the paper's way of counting and the bytes on the wire.",
}


def menus(book: Book) -> list[tuple[str, list[tuple[str, str]]]]:
    # the leaderboard has a link of its own
    sheets = [s for s in book.sheets if s.judged] or book.sheets
    names = dict.fromkeys(sheet.paper for sheet in sheets)
    papers = [(book.name(paper), f"{paper}/index.html") for paper in names]
    titles = {
        name: str(book.methods.get(name, {}).get("title") or name) for name in by_method(book)
    }
    methods = [(title, f"methods/{slug(name)}.html") for name, title in titles.items()]
    datasets = [
        (str(book.datasets.get(name, {}).get("title") or name), f"datasets/{slug(name)}.html")
        for name in by_dataset(book)
    ]
    sections = [("Papers", papers), ("Methods", methods), ("Data sets", datasets)]
    return [(name, items) for name, items in sections if items]


def search(book: Book, board: Leaderboard | None) -> list[list[str]]:
    """Return the entries of the search: name, kind, address, and further words."""
    methods = {
        f"methods/{slug(n)}.html": f"{n} {facts.get('paper', '')}"
        for n, facts in book.methods.items()
    }
    datasets = {f"datasets/{slug(name)}.html": name for name in book.datasets}
    titles = {
        f"{paper}/index.html": f"{facts.get('title', '')} {facts.get('about', '')}"
        for paper, facts in book.papers.items()
    }
    words = methods | datasets | titles
    kinds = {"Papers": "paper", "Methods": "method", "Data sets": "data set"}
    entries = [
        [name, kinds[menu], link, words.get(link, "")]
        for menu, items in menus(book)
        for name, link in items
    ]
    entries += [[f"{each.key} {each.title}", each.kind, each.page, ""] for each in book.sheets]
    if board:
        entries.append(
            ["Leaderboard", "page", "leaderboard.html", "board ranking best method baseline"]
        )
        entries += [
            [line.row, "row of the leaderboard", f"leaderboard.html#{slug(line.row)}", line.method]
            for line in board.lines
        ]
    entries += [
        [f"{book.name(paper)}: {heading}", "notes", f"{paper}/notes.html#{anchor(heading)}", ""]
        for paper, facts in book.papers.items()
        for heading in re.findall(r"^##+ (.+)$", str(facts.get("notes", "")), re.MULTILINE)
    ]
    entries += [
        [heading, name, f"{name}.html#{anchor(heading)}", ""]
        for name, text in book.documents.items()
        for heading in re.findall(r"^##+ (.+)$", text, re.MULTILINE)
    ]
    entries += [
        [f"{word}", "glossary", f"how.html#{slug(word)}", text] for word, text in GLOSSARY.items()
    ]
    entries += [
        ["Cite", "help", "how.html#cite", "citation bibtex reference doi"],
        ["Columns of the csv files", "help", "how.html#csv", "download data raw values licence"],
        [
            "Verdicts: reproduced, differs, undecided",
            "help",
            "how.html#verdicts",
            "interval margin rule",
        ],
        ["Contest a statement", "help", "how.html#contest", "author disagree error report"],
    ]
    claims = [(s, c) for s in book.sheets for c in s.claims]
    return entries + [
        [c.text, f"claim of {s.paper}", f"{s.page}#claim-{c.id}", c.id] for s, c in claims
    ]


def by_method(book: Book) -> dict[str, list[tuple[Sheet, Number]]]:
    """Return every number of a method, in the order of their names."""
    numbers: dict[str, list[tuple[Sheet, Number]]] = {}
    for sheet in book.sheets:
        for number in sheet.numbers:
            if number.method and number.kind not in (Kind.LOOKUP, Kind.SETTING):
                numbers.setdefault(number.method, []).append((sheet, number))
    return dict(sorted(numbers.items()))


def by_dataset(book: Book) -> dict[str, list[tuple[Sheet, Number]]]:
    """Return every number by data set, without those that no run is behind."""
    numbers: dict[str, list[tuple[Sheet, Number]]] = {name: [] for name in book.datasets}
    for sheet in book.sheets:
        for number in sheet.numbers:
            name = sheet.datasets.get(number.column, "")
            if name and (number.method or number.source):
                numbers.setdefault(name, []).append((sheet, number))
    return dict(sorted(numbers.items()))

"""Docstrings of methods as HTML: prose, and update rules as MathML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup, escape

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "eta": "η", "lam": "λ", "lambda": "λ", "mu": "μ",
    "tau": "τ", "theta": "θ", "sigma": "σ", "grad": "∇",
}  # fmt: skip
SIGNS = {"<-": "←", "*": "·", "-": "−", "->": "→", ">=": "≥", "<=": "≤", "o": "∘"}
SYMBOL = r"(?:[A-Za-z]|alpha|beta|gamma|eta|lam|lambda|mu|tau|theta|sigma|grad|sum|start|bar)"
TOKEN = re.compile(
    rf"(?P<name>{SYMBOL}(?P<digits>\d?)(?![A-Za-z]))(?:_(?P<sub>\w+(?:,\w+)?))?(?:\^(?P<sup>\w+))?"
    r"|(?P<word>[A-Za-z][\w'’.-]*)|(?P<number>\d[\d.]*)|(?P<power>\^\w+)|(?P<sign><-|->|>=|<=|\S)"
)
RULE = re.compile(r"<-|\s=\s")
STATEMENT = re.compile(rf"(?:[A-Z][a-z ]+: )?{SYMBOL}[_\w,]*(?:\(.{{1,9}}\))? *(?:, \w+ )?(?:<-|=)")
WORDY = 12
"""Words of a statement that is prose."""
INLINE = re.compile(rf"(?<![\w`]){SYMBOL}_\w+(?:,\w+)?(?![\w`])")


def method(text: str) -> tuple[str, Markup, Markup]:
    """Return a docstring's first paragraph, its update rule, and everything after it."""
    first, *rest = [" ".join(part.split()) for part in text.split("\n\n")]
    blocks = text.split("\n\n")[1:]
    rules = [at for at, part in enumerate(rest) if RULE.search(part)][:1]
    rule = Markup("").join(_lines(blocks[at]) for at in rules)
    after = [f"<p>{prose(part)}</p>" for at, part in enumerate(rest) if at not in rules]
    return first, rule, Markup("".join(after))


def prose(text: str) -> Markup:
    """Return a sentence with symbols such as `w_i` set as mathematics."""
    text = text.replace("<-", "←")
    parts, at = [], 0
    for match in INLINE.finditer(text):
        parts += [escape(text[at : match.start()]), _math(match[0])]
        at = match.end()
    return Markup("").join([*parts, escape(text[at:])])


def _lines(block: str) -> Markup:
    """One line of mathematics per statement."""
    statements = re.split(r";\s+|(?<=[a-z)\]])\.\s+", " ".join(block.split()))
    found: list[Markup] = []
    told = ""
    for each in filter(None, (each.rstrip(".") for each in statements)):
        formal = STATEMENT.match(each) and len(re.findall(r"[A-Za-z]{3,}", each)) <= WORDY
        if formal and not told:
            found.append(Markup('<p class="formula">{}</p>').format(_math(each)))
        else:
            told += f"{'' if not told else '. ' if each[0].isupper() else '; '}{each}"
    said = Markup("<p>{}.</p>").format(prose(told)) if told else Markup("")
    return Markup("").join([*found, said])


def _math(text: str) -> Markup:
    """Plain text as MathML: symbols, indices and signs; words stay words."""
    return Markup("<math><mrow>{}</mrow></math>").format(Markup("").join(_tokens(text)))


def _tokens(text: str) -> Iterator[Markup]:
    words: list[str] = []
    for match in TOKEN.finditer(text):
        article = match["name"] in ("a", "A", "I") and not match["sub"]
        if match["word"] or article or (match["sign"] and words and match[0] in ",:`"):
            words.append(match[0])
            continue
        if words:
            yield _words(words)
            words = []
        if match["power"]:
            yield Markup("<msup><mi></mi><mi>{}</mi></msup>").format(match[0][1:])
        elif match["number"]:
            yield Markup("<mn>{}</mn>").format(match[0])
        elif match["sign"] or match[0] == "o":
            yield Markup("<mo>{}</mo>").format(SIGNS.get(match[0], match[0]))
        else:
            yield _symbol(match)
    if words:
        yield _words(words)


def _words(words: list[str]) -> Markup:
    text = " ".join(words).replace(" ,", ",").replace(" :", ":").replace(" `", " ")
    return Markup("<mtext>&nbsp;{}&nbsp;</mtext>").format(text)


def _symbol(match: re.Match[str]) -> Markup:
    name = match["name"]
    shown = Markup("<mo>∑</mo>") if name == "sum" else Markup("<mi>{}</mi>").format(
        GREEK.get(name, name)
    )  # fmt: skip
    if match["sub"]:
        shown = Markup("<msub>{}<mi>{}</mi></msub>").format(
            shown, GREEK.get(match["sub"], match["sub"])
        )
    if match["sup"]:
        shown = Markup("<msup><mrow>{}</mrow><mi>{}</mi></msup>").format(shown, match["sup"])
    return shown

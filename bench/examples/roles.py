"""A next-character model on roles of plays. Every client is a role; a speech is for one purpose.

The embedded text is a toy. `ROLES_FILE=plays.txt` reads another one, a speech per line as `ROLE:
text`, such as a play of Project Gutenberg.

    repfl run --plugin bench/examples/roles.py --grid FILE
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from repfl.algorithms import models
from repfl.datasets.core.files.custom import from_arrays, register
from repfl.datasets.core.registry import Arrays

LENGTH = 16
LETTERS = " abcdefghijklmnopqrstuvwxyz'"
SPEECHES = """
HAMLET: To be, or not to be, that is the question
HAMLET: Whether 'tis nobler in the mind to suffer the slings and arrows of outrageous fortune
HAMLET: Or to take arms against a sea of troubles, and by opposing end them
HAMLET: To die, to sleep, no more; and by a sleep to say we end the heart-ache
MACBETH: Tomorrow, and tomorrow, and tomorrow, creeps in this petty pace from day to day
MACBETH: And all our yesterdays have lighted fools the way to dusty death
MACBETH: Out, out, brief candle! Life's but a walking shadow, a poor player
MACBETH: Is this a dagger which I see before me, the handle toward my hand?
JULIET: O Romeo, Romeo, wherefore art thou Romeo?
JULIET: Deny thy father and refuse thy name
JULIET: What's in a name? That which we call a rose by any other name would smell as sweet
JULIET: Good night, good night! Parting is such sweet sorrow
PORTIA: The quality of mercy is not strained
PORTIA: It droppeth as the gentle rain from heaven upon the place beneath
PORTIA: It is twice blest; it blesseth him that gives and him that takes
PORTIA: 'Tis mightiest in the mightiest; it becomes the throned monarch better than his crown
"""


def speeches() -> list[tuple[str, str]]:
    """Return pairs of a role and a text in lower-case letters."""
    file = os.environ.get("ROLES_FILE")
    text = Path(file).read_text(encoding="utf-8") if file else SPEECHES
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    keep = str.maketrans(dict.fromkeys("-,;.!?", " "))
    spoken = ((role.strip(), line.lower().translate(keep)) for role, _, line in pairs)
    words = ((role, " ".join(line.split())) for role, line in spoken)
    return [(role, "".join(c for c in line if c in LETTERS)) for role, line in words]


ROLES = tuple(dict.fromkeys(role for role, _ in speeches()))
ALPHABET = "".join(sorted({letter for _, line in speeches() for letter in line}))


def windows() -> dict[str, Arrays]:
    """Return `LENGTH` characters and the next one, for every place of every speech."""
    ids, labels, groups, sources = [], [], [], []
    for source, (role, line) in enumerate(speeches()):
        tokens = [ALPHABET.index(character) for character in " " * LENGTH + line]
        for place in range(len(line)):
            ids.append(tokens[place : place + LENGTH])
            labels.append(tokens[place + LENGTH])
            groups.append(ROLES.index(role))
            sources.append(source)
    return {"all": Arrays(*map(np.array, (ids, labels, groups, sources)))}


register(
    from_arrays(
        "roles",
        windows,
        classes=tuple(ALPHABET),
        shape=(LENGTH,),
        vocabulary=len(ALPHABET),
        groups=ROLES,
    )
)


@models.register("next-char")
class NextChar(nn.Module):
    """An embedding of every character, and one hidden layer over all of them."""

    inputs = "tokens"

    def __init__(self, channels: int, size: int, classes: int) -> None:
        """`channels` is the size of the vocabulary, `size` the number of tokens."""
        super().__init__()
        self.embedding = nn.Embedding(channels, 8)
        self.fc1 = nn.Linear(8 * size, 64)
        self.fc2 = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(self.embedding(x).flatten(1)).relu())

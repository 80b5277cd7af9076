"""What is left to gain on this processor, into bench/SPEED.md: python -m tests.speed.kernels

Where the time of a training step goes, by PyTorch's profiler, whose own time counts as the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from torch.profiler import ProfilerActivity, profile

from repfl.bench.pages import parts
from repfl.bench.records import provenance
from repfl.bench.running.memory import keep_freed_memory
from tests.speed import roofline
from tests.speed.clients import federation
from tests.speed.page import PAGE
from tests.speed.plain import NETS, Plain

BATCH, STEPS = 32, 10
PRODUCTS, REST = "convolutions and matrix products", "the rest"
KINDS = {PRODUCTS: ("conv", "mm"), "normalisation": ("norm",), "pooling": ("pool",)}
HEADS = (*KINDS, REST, "speed of the products, of the peak", "no more than so many times as fast")


def kind(operation: str) -> str:
    """What an operation of PyTorch counts as."""
    named = (name for name, signs in KINDS.items() if any(sign in operation for sign in signs))
    return next(named, REST)


def shares(model: str) -> tuple[dict[str, float], float]:
    """By kind, its share of a client's training; and how fast the products go, of the peak."""
    fed = federation(model, (BATCH * STEPS,), "cpu", batch=BATCH)
    start = fed.new_model()[None]
    fed.train(start)  # warms up
    with profile(activities=[ProfilerActivity.CPU]) as taken:
        fed.train(start)
    spent = dict.fromkeys([*KINDS, REST], 0.0)
    for event in taken.key_averages():
        spent[kind(event.key)] += event.self_cpu_time_total / 1e6
    needed = STEPS * roofline.of_step(Plain(model, fed)).operations / roofline.peak("cpu")
    total = sum(spent.values())
    return {name: value / total for name, value in spent.items()}, needed / spent[PRODUCTS]


def block() -> Iterator[str]:
    """A table of all models."""
    processor = provenance.processor()["name"]
    yield f"On {processor}, one thread, batches of {BATCH}, {date.today()}. Shares of a step:"
    yield f"\n| model | {' | '.join(HEADS)} |"
    yield f"|{'---|' * (len(HEADS) + 1)}"
    for model in NETS:
        found, speed = shares(model)
        told = " | ".join(f"{100 * share:.0f} %" for share in (*found.values(), speed))
        yield f"| {model} | {told} | {1 / found[PRODUCTS]:.2f} |"


def main() -> None:
    keep_freed_memory()  # as every process does that computes cells
    parts.write(PAGE, "kernels", "\n".join(block()) + "\n")


if __name__ == "__main__":
    main()

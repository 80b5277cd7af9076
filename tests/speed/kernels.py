"""What is left to gain on this processor, into bench/SPEED.md: python -m tests.speed.kernels

How much of a training step PyTorch's profiler finds in kernels; the rest of the step, as it takes
without the profiler, is everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from itertools import product

from torch.profiler import ProfilerActivity, profile

from repfl.bench.pages import parts
from repfl.bench.records import provenance
from repfl.bench.running.memory import keep_freed_memory
from tests.speed import roofline
from tests.speed.clients import federation
from tests.speed.page import PAGE
from tests.speed.plain import NETS

BATCH, STEPS = 32, 10
PRODUCTS, REST = "convolutions and matrix products", "the rest"
KINDS = {PRODUCTS: ("conv", "mm"), "normalisation": ("norm",), "pooling": ("pool",)}
HEADS = (*KINDS, REST, "no more than so many times as fast")


def shares(model: str) -> dict[str, float]:
    """By kind of kernel, its share of a client's training."""
    fed = federation(model, (BATCH * STEPS,), "cpu", batch=BATCH)
    start = fed.new_model()[None]
    whole = roofline.seconds(lambda: fed.train(start))
    with profile(activities=[ProfilerActivity.CPU]) as taken:
        fed.train(start)
    found = dict.fromkeys(KINDS, 0.0)
    for event, (kind, signs) in product(taken.key_averages(), KINDS.items()):
        if any(sign in event.key for sign in signs):
            found[kind] += event.self_cpu_time_total / 1e6 / whole
    return found | {REST: 1 - sum(found.values())}


def block() -> Iterator[str]:
    """A table of all models."""
    processor = provenance.processor()["name"]
    yield f"On {processor}, one thread, batches of {BATCH}, {date.today()}. Shares of a step:"
    yield f"\n| model | {' | '.join(HEADS)} |"
    yield f"|{'---|' * (len(HEADS) + 1)}"
    for model in NETS:
        found = shares(model)
        told = " | ".join(f"{100 * share:.0f} %" for share in found.values())
        yield f"| {model} | {told} | {1 / found[PRODUCTS]:.2f} |"


def main() -> None:
    keep_freed_memory()  # as every process does that computes cells
    parts.write(PAGE, "kernels", "\n".join(block()) + "\n")


if __name__ == "__main__":
    main()

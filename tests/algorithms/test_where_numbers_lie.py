"""What is copied, what is read where it lies, and what is overwritten."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from repfl.algorithms import models
from repfl.algorithms.engine.client_data import ClientData
from tests.algorithms import toys


def test_weights_of_a_mean_need_not_sum_to_one() -> None:
    fed = toys.run("local", rounds=1).fed
    x = torch.arange(2.0 * fed.K).view(fed.K, 2)
    weights = torch.tensor([3.0, 0, 0, 0, 0, 1.0])
    assert fed.mean(x, weights).tolist() == [(3 * 0 + 10) / 4, (3 * 1 + 11) / 4]


@pytest.mark.parametrize("buffers", ["local", "global"])
def test_a_message_holds_zeros_where_nothing_is_sent_whatever_lies_there(buffers: str) -> None:
    fed = toys.run("fedper", model="tiny-bn", rounds=1, buffers=buffers).fed
    fresh = fed.params.where(kind="linear")
    for mask in (fed.communicated, fed.communicated & fed.params.body, fresh):
        own = fed.new_model().repeat(fed.K, 1).masked_fill(~mask, float("nan"))
        kept = own.clone()
        arrived = fed.up(own, mask)
        assert torch.equal(arrived, kept.nan_to_num(0.0))
        assert torch.equal(own.isnan(), kept.isnan())


def test_reference_models_are_read_and_neither_trained_nor_returned() -> None:
    fed = toys.run("local", rounds=1).fed
    start = fed.new_model().expand(fed.K, -1)
    anchor = torch.zeros(fed.K, fed.D)
    pulled = fed.train(start, pull=(anchor, 5.0), keep=("models",))
    assert list(pulled.models) == ["params"]
    assert not anchor.any()
    assert pulled.params.abs().sum() < fed.train(start).abs().sum()


@pytest.mark.parametrize("model", ["tiny", "cnn4"])
def test_named_copies_share_no_memory_with_the_flat_vector_and_views_do(model: str) -> None:
    """A view would train the rows of others; kernels of one channel are in their final order as
    they lie.
    """
    layout = models.build(model, channels=1, size=28, classes=4).params
    flat = torch.arange(1.0, layout.size + 1)[None]
    before = flat.clone()
    for value in layout.unflatten(flat).values():
        value.zero_()
    assert torch.equal(flat, before)
    seen, copied = layout.views(flat), layout.unflatten(flat)
    assert all(torch.equal(seen[name], value) for name, value in copied.items())
    flat.zero_()
    assert not any(value.any() for value in seen.values())


@pytest.mark.parametrize("shape", [None, (3, 8, 8), (3, 10, 12)])
def test_images_are_normalised_value_by_value_with_and_without_room_for_all(
    shape: tuple[int, int, int] | None,
) -> None:
    images = torch.arange(5 * 8 * 8 * 3).remainder(256).to(torch.uint8).view(5, 8, 8, 3)
    scale, shift = torch.tensor([0.1, 0.3, 0.7]), torch.tensor([-1.0, 0.5, 2.0])
    none = [torch.arange(0)]
    held = ClientData(images, torch.zeros(5).long(), none, none, none, scale, shift, 4, shape)
    index = torch.tensor([[3, 0], [2, 3]])
    plain = (images.float() * scale + shift).permute(0, 3, 1, 2)
    plain = F.pad(plain, (0, 12 - 8, 0, 10 - 8)) if shape == (3, 10, 12) else plain
    ready = held.to(torch.device("cpu"), torch.float32)
    assert ready.ready is not None
    for data in (held, ready):
        assert torch.equal(data.inputs(index), plain[index])

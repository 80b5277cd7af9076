from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from repfl.datasets.core import augment
from tests.datasets.tiny import images


def batch(n: int = 16, channels: int = 3, size: int = 32) -> Tensor:
    return torch.from_numpy(images(n, (channels, size, size))).float() / 255


def drawn(name: str, n: int, seed: int = 0) -> tuple[augment.Augmentation, dict[str, Tensor]]:
    augmentation = augment.AUGMENTATIONS[name]
    assert augmentation is not None
    draws = augmentation.draw(np.random.default_rng(seed), n)
    return augmentation, {key: torch.from_numpy(value) for key, value in draws.items()}


def test_rotation_is_that_of_pillow_which_the_papers_use() -> None:
    pictures, angles = images(60, (32, 32)), np.random.default_rng(1).uniform(-15, 15, 60)
    turn = torch.from_numpy(np.deg2rad(angles))
    ours = augment.rotate(torch.from_numpy(pictures)[:, None].float(), turn.cos(), turn.sin())
    turned = [Image.fromarray(p).rotate(a) for p, a in zip(pictures, angles, strict=True)]
    differ = ours[:, 0].numpy() != np.stack([np.asarray(picture) for picture in turned])
    assert differ.mean() < 1e-3  # Pillow rounds coordinates to 1/65,536 of a pixel


def test_a_crop_is_a_window_of_the_padded_image() -> None:
    pictures = batch(81)
    top, left = (
        side.flatten() for side in torch.meshgrid(torch.arange(9), torch.arange(9), indexing="ij")
    )
    padded = torch.nn.functional.pad(pictures, (4, 4, 4, 4))
    expected = torch.stack(
        [padded[k, :, top[k] : top[k] + 32, left[k] : left[k] + 32] for k in range(81)]
    )
    assert torch.equal(augment.crop(pictures, top, left), expected)


def test_a_flip_mirrors_only_the_chosen_images() -> None:
    pictures = batch(4)
    flipped = augment.flip(pictures, torch.tensor([True, False, True, False]))
    assert torch.equal(flipped[0], pictures[0].flip(-1))
    assert torch.equal(flipped[1], pictures[1])


def test_fedpurin_crops_after_normalisation_and_the_others_before() -> None:
    pictures = batch(200) + 0.5
    late, draws = drawn("flip-rotate-crop", 200)
    assert late.before(pictures, draws).shape == pictures.shape
    moved = late.after(pictures, draws)
    assert (moved == 0).any()
    early, draws = drawn("crop-flip", 200)
    assert torch.equal(early.after(pictures, draws), pictures)
    assert (early.before(pictures, draws) == 0).any()


def test_draws_depend_on_the_generator_alone_and_cover_their_range() -> None:
    for name in augment.AUGMENTATIONS.keys() - {"none"}:
        _, first = drawn(name, 4000, seed=3)
        _, again = drawn(name, 4000, seed=3)
        _, other = drawn(name, 4000, seed=4)
        assert all(torch.equal(first[key], again[key]) for key in first)
        assert any(not torch.equal(first[key], other[key]) for key in first)
    _, draws = drawn("flip-rotate-crop", 4000)
    assert 0.46 < draws["flip"].float().mean() < 0.54
    angle = torch.rad2deg(torch.atan2(draws["sine"], draws["cosine"]))
    assert -15 <= angle.min() < -14.8 < 14.8 < angle.max() <= 15
    for side in ("top", "left"):
        assert set(draws[side].tolist()) == set(range(9))


@pytest.mark.parametrize("name", ["flip", "crop", "crop-flip", "flip-rotate-crop"])
def test_an_image_is_augmented_alike_whatever_batch_it_is_in(name: str) -> None:
    augmentation, draws = drawn(name, 16)
    pictures = batch(16, channels=1, size=28)
    whole = augmentation.after(augmentation.before(pictures, draws), draws)
    for k in range(16):
        single = {key: value[k : k + 1] for key, value in draws.items()}
        alone = augmentation.after(augmentation.before(pictures[k : k + 1], single), single)
        assert torch.equal(alone, whole[k : k + 1])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_augments_like_a_cpu() -> None:
    augmentation, draws = drawn("flip-rotate-crop", 64)
    pictures = batch(64)
    there = {key: value.cuda() for key, value in draws.items()}
    moved = augmentation.after(augmentation.before(pictures.cuda(), there), there).cpu()
    assert torch.equal(moved, augmentation.after(augmentation.before(pictures, draws), draws))

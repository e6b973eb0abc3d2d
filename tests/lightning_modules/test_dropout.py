"""Dropout is PyTorch's, but for its stream of masks."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightning_modules.dropout import STEPS, Dropout

N = 2**20


def dropped(x: Tensor, rate: float, *, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    return Dropout(rate)(x)


@pytest.mark.parametrize("rate", [1 / STEPS, 0.1, 0.5, 0.9])
def test_every_place_is_dropped_at_the_rate(rate: float) -> None:
    zeros = dropped(torch.ones(N), rate).eq(0).double()
    for places in (zeros, *zeros.view(-1, 4).T):  # four places come from one draw
        error = math.sqrt(rate * (1 - rate) / len(places))
        assert places.mean().item() == pytest.approx(rate, abs=5 * error)


def test_places_are_dropped_independently() -> None:
    zeros = dropped(torch.ones(N), 0.5).eq(0).double() - 0.5
    for distance in range(1, 9):
        product = (4 * zeros[distance:] * zeros[:-distance]).mean().item()
        assert abs(product) < 5 / math.sqrt(N)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_what_is_kept_is_scaled_and_its_gradient_too(dtype: torch.dtype) -> None:
    x = torch.full((N,), 3.0, dtype=dtype, requires_grad=True)
    y = dropped(x, 0.1)
    y.sum().backward()
    kept, scale = y != 0, 1 / (1 - round(0.1 * STEPS) / STEPS)
    assert y.dtype is dtype
    assert scale == pytest.approx(1 / 0.9, rel=5e-5)
    for values, expected in ((y, 3 * scale), (x.grad, scale)):
        torch.testing.assert_close(values[kept], torch.full_like(x, expected)[kept])
        assert values[~kept].abs().max() == 0


@given(st.lists(st.integers(0, 5), max_size=4), st.floats(0.01, 0.99999))
def test_any_shape_and_rate(shape: list[int], rate: float) -> None:
    x = torch.ones(shape)
    y = dropped(x, rate)
    assert y.shape == x.shape
    assert y.isfinite().all()


def test_the_generator_alone_decides() -> None:
    x = torch.ones(101)
    assert torch.equal(dropped(x, 0.5, seed=3), dropped(x, 0.5, seed=3))
    assert not torch.equal(dropped(x, 0.5, seed=3), dropped(x, 0.5, seed=4))
    torch.manual_seed(3)
    layer = Dropout(0.5)
    assert not torch.equal(layer(x), layer(x))


def test_nothing_is_drawn_where_nothing_is_dropped() -> None:
    x, state = torch.ones(5), torch.get_rng_state()
    for layer in (Dropout(0.0), Dropout(0.5).eval()):
        assert torch.equal(layer(x), x)
    assert torch.equal(torch.get_rng_state(), state)

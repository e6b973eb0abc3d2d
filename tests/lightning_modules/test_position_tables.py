"""The table of every scheme against its formula, and wavelengths of known waves."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_modules.axes.positions import (
    SHAW_FARTHEST,
    Position,
    PositionScheme,
    alibi_slopes,
    t5_bucket,
)
from lightning_modules.design import Design
from lightning_modules.position_tables import PositionTable, position_table, wavelength
from tests.lightning_modules.designs import TINY

N = 50


def scheme(position: Position, *, causal: bool = False, d_model: int = 16) -> PositionScheme:
    torch.manual_seed(0)
    dims = dataclasses.replace(TINY, d_model=d_model)
    return position(Design(position=position), dims, causal=causal)


def table(position: Position, *, causal: bool = False) -> PositionTable:
    built = scheme(position, causal=causal)
    found = position_table(built, n_positions=N, n_heads=4, d_key=4, causal=causal)
    assert found is not None
    assert found.values.shape == (len(found.rows), len(found.columns))
    return found


@pytest.mark.parametrize("position", Position)
def test_every_scheme_has_a_table_save_the_one_without_positions(position: Position) -> None:
    found = position_table(scheme(position), n_positions=N, n_heads=4, d_key=4, causal=False)
    assert (found is None) == (position is Position.none)


@given(half=st.integers(1, 40))
def test_waves_of_the_sinusoidal_table_are_those_of_its_formula(half: int) -> None:
    built = scheme(Position.sinusoidal, d_model=4 * half)
    found = position_table(built, n_positions=N, n_heads=4, d_key=half, causal=False)
    assert found is not None
    assert found.wavelengths is not None
    assert (found.kind, found.axes) == ("vector", ("position", "dimension"))
    exact = [2 * math.pi * 10000 ** (2 * (i // 2) / (4 * half)) for i in range(4 * half)]
    assert found.wavelengths.tolist() == pytest.approx(exact, rel=1e-4)
    assert found.values[3, 0].item() == pytest.approx(math.sin(3))


def test_a_learned_table_is_shown_as_it_is() -> None:
    found = table(Position.learned)
    expected = scheme(Position.learned).table.weight[:N].double()  # type: ignore[union-attr]
    assert torch.equal(found.values, expected)
    assert found.wavelengths is not None
    assert found.wavelengths.isfinite().all()


def test_rotation_is_the_angle_of_each_pair() -> None:
    found = table(Position.rope)
    assert (found.kind, found.axes) == ("rotation", ("position", "pair"))
    turned = torch.arange(N)[:, None] * torch.tensor([1.0, 10000**-0.5])
    wrapped = torch.remainder(turned + math.pi, 2 * math.pi) - math.pi
    torch.testing.assert_close(found.values, wrapped.double(), atol=1e-5, rtol=0)
    assert found.wavelengths is not None
    assert found.wavelengths.tolist() == pytest.approx([2 * math.pi, 200 * math.pi], rel=1e-5)


def test_alibi_is_a_bias_that_falls_with_distance() -> None:
    found, past = table(Position.alibi), table(Position.alibi, causal=True)
    assert (found.kind, found.axes, found.wavelengths) == ("bias", ("head", "offset"), None)
    expected = -torch.tensor(alibi_slopes(4))[:, None] * found.columns.abs()
    torch.testing.assert_close(found.values, expected.double())
    assert (int(found.columns[0]), int(found.columns[-1])) == (1 - N, N - 1)
    assert int(past.columns[-1]) == 0
    assert torch.equal(past.values, found.values[:, :N])


@pytest.mark.parametrize("causal", [False, True])
def test_a_relative_bias_is_that_of_its_bucket(causal: bool) -> None:
    found = table(Position.relative, causal=causal)
    biases = scheme(Position.relative, causal=causal).biases.weight  # type: ignore[union-attr]
    expected = biases[t5_bucket(found.columns, causal=causal)].T.double()
    assert found.kind == "bias"
    assert torch.equal(found.values, expected)


def test_keys_of_distances_are_clipped_as_the_scheme_clips_them() -> None:
    found = table(Position.shaw)
    assert (found.kind, found.axes) == ("key vector", ("offset", "dimension"))
    keys = scheme(Position.shaw).keys.weight  # type: ignore[union-attr]
    clipped = found.rows.clamp(-SHAW_FARTHEST, SHAW_FARTHEST) + SHAW_FARTHEST
    torch.testing.assert_close(found.values, keys[clipped].double())


@given(
    length=st.floats(2.1, 1e5),
    phase=st.floats(0.1, 1.4),
    n=st.integers(20, 300),
    size=st.floats(0.1, 9),
)
def test_the_length_of_any_wave_is_found(length: float, phase: float, n: int, size: float) -> None:
    wave = size * torch.sin(2 * math.pi / length * torch.arange(n, dtype=torch.double) + phase)
    assert wavelength(wave[:, None]).item() == pytest.approx(length, rel=1e-3)


def test_columns_that_are_no_waves() -> None:
    constant, zeros = torch.ones(9, 1).double(), torch.zeros(9, 1).double()
    growing = 2.0 ** torch.arange(9).double()[:, None]
    found = wavelength(torch.cat([constant, zeros, growing], dim=1)).tolist()
    assert found[0] == found[2] == math.inf
    assert math.isnan(found[1])
    noise = torch.randn(20_000, 1, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    assert wavelength(noise).item() == pytest.approx(4, abs=0.1)

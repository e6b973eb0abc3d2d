"""What a position scheme holds, as a table: asked of the scheme itself, whatever its level."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lightning_modules.axes.positions import PositionScheme


@dataclass(frozen=True, eq=False)
class PositionTable:
    """The numbers by which a scheme tells positions apart.

    Attributes:
        kind: `vector` of a position, `rotation` of a position in radians from -pi to pi, `bias` of
            a head in units of the scores, or `key vector` of an offset.
        axes: what rows and columns of the values are.
        rows: number of each row; an offset is key minus query.
        columns: number of each column.
        values: `(rows, columns)`.
        wavelengths: of each column in tokens, `(columns,)`; None where columns are no waves.
    """

    kind: str
    axes: tuple[str, str]
    rows: Tensor
    columns: Tensor
    values: Tensor
    wavelengths: Tensor | None = None


@torch.no_grad()
def position_table(
    scheme: PositionScheme, *, n_positions: int, n_heads: int, d_key: int, causal: bool
) -> PositionTable | None:
    """The table of a scheme, or None where it has none.

    Args:
        scheme: built for heads of these sizes.
        n_positions: positions from 0 on; offsets reach as far.
        n_heads: attention heads.
        d_key: width of a head's queries and keys.
        causal: leave out the offsets of keys behind the query.
    """
    positions = torch.arange(n_positions)
    vectors = scheme.vectors(positions)
    if vectors is not None:
        return _vectors(vectors.double(), positions)
    turned = _turned(scheme, positions, d_key)
    if turned.any():
        return _rotation(turned, positions)
    offsets = torch.arange(1 - n_positions, 1 if causal else n_positions)
    # Queries along each dimension, and one of zeros: does the bias depend on the query?
    queries = torch.cat([torch.eye(d_key), torch.zeros(1, d_key)])
    bias = _by_offset(scheme, queries[:, None, None].expand(-1, n_heads, -1, -1), offsets)
    if bias is None:
        return None
    if (bias == bias[-1]).all():
        return PositionTable("bias", ("head", "offset"), torch.arange(n_heads), offsets, bias[-1])
    dimensions, keys = torch.arange(d_key), bias[:-1, 0].T
    return PositionTable("key vector", ("offset", "dimension"), offsets, dimensions, keys)


def wavelength(columns: Tensor) -> Tensor:
    """Tokens to a wave in each column of `(positions, columns)`, `(columns,)`.

    `2 pi / arccos(c)` with `c = sum_p x_p (x_{p-1} + x_{p+1}) / (2 sum_p x_p^2)`: exact for a sine
    of any phase, since then `x_{p-1} + x_{p+1} = 2 cos(w) x_p`; for anything else the mean of
    `cos w` over its spectrum (the cosine formula of Kedem 1986). Infinite where nothing turns back,
    NaN for a column of zeros.
    """
    inner = columns[1:-1]
    product = (inner * (columns[:-2] + columns[2:])).sum(0) / (2 * inner.square().sum(0))
    return 2 * math.pi / product.clamp(-1, 1).arccos()


def _vectors(vectors: Tensor, positions: Tensor) -> PositionTable:
    dimensions = torch.arange(vectors.shape[1])
    axes, waves = ("position", "dimension"), wavelength(vectors)
    return PositionTable("vector", axes, positions, dimensions, vectors, waves)


def _turned(scheme: PositionScheme, positions: Tensor, d_key: int) -> Tensor:
    """The angle by which each pair of features is turned, `(positions, pairs)`."""
    n_pairs = d_key // 2
    ahead = torch.zeros(1, 1, len(positions), d_key, dtype=torch.double)
    ahead[..., :n_pairs] = 1
    first, second = scheme.rotate(ahead, positions)[0, 0, :, : 2 * n_pairs].chunk(2, dim=-1)
    return torch.atan2(second, first)


def _rotation(angles: Tensor, positions: Tensor) -> PositionTable:
    steps = torch.remainder(angles.diff(dim=0) + math.pi, 2 * math.pi) - math.pi
    pairs, waves = torch.arange(angles.shape[1]), 2 * math.pi / steps.mean(0).abs()
    return PositionTable("rotation", ("position", "pair"), positions, pairs, angles, waves)


def _by_offset(scheme: PositionScheme, query: Tensor, offsets: Tensor) -> Tensor | None:
    """The bias of queries `(batch, heads, 1, d_key)` at each offset, `(batch, heads, offsets)`."""
    place = -int(offsets[0])
    found = scheme.bias(query, torch.tensor([place]), place + offsets)
    return None if found is None else found[:, :, 0].double().expand(*query.shape[:2], -1)

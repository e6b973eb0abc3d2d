"""Axes of how positions act: where their vectors enter, and how rotation goes beyond training."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from lightning_modules.axis import Axis, Level

if TYPE_CHECKING:
    from lightning_modules.design import Dims


class Addition(nn.Module):
    """Position vectors `(length, d_model)` added to the embeddings (Vaswani et al. 2017, 3.5)."""

    def __init__(self, dims: "Dims") -> None:
        super().__init__()

    def embed(self, x: Tensor, vectors: Tensor) -> Tensor:
        """Embeddings `(batch, length, d_model)` with their positions."""
        return x + vectors.to(x.dtype)

    def values(self, x: Tensor, vectors: Tensor) -> Tensor:
        """What the values of self-attention are projected from, `(batch, length, d_model)`."""
        return x


class Concatenation(Addition):
    """Position vectors beside the embeddings, both mapped to `d_model`."""

    def __init__(self, dims: "Dims") -> None:
        super().__init__(dims)
        self.join = nn.Linear(2 * dims.d_model, dims.d_model)
        nn.init.xavier_uniform_(self.join.weight)
        nn.init.zeros_(self.join.bias)

    def embed(self, x: Tensor, vectors: Tensor) -> Tensor:
        """Embeddings `(batch, length, d_model)` with their positions."""
        return self.join(torch.cat([x, vectors.to(x.dtype).expand_as(x)], dim=-1))


class ValuesOnly(Addition):
    """Position vectors added to what values are made from, in every layer; matching can't see them.

    Beyond the first layer they have entered the stream through the values.
    """

    def embed(self, x: Tensor, vectors: Tensor) -> Tensor:
        """Embeddings as they are."""
        return x

    def values(self, x: Tensor, vectors: Tensor) -> Tensor:
        """What the values of self-attention are projected from, `(batch, length, d_model)`."""
        return x + vectors.to(x.dtype)


class PositionInjection(Axis):
    """Where position vectors enter: `level(dims) -> module` with `embed` and `values`."""

    add = Level(Addition, "added to the embeddings", "Vaswani et al. 2017, section 3.5")
    concat = Level(
        Concatenation,
        "beside the embeddings, mapped back to d_model: 2 d_model² more parameters a stack",
        "for the claim that adding does as well at less cost",
    )
    values_only = Level(
        ValuesOnly,
        "added where values are made, in every layer: queries and keys don't see them",
        "for the claim that positions must take part in matching",
    )


def _interpolated(frequencies: Tensor, factor: float) -> Tensor:
    return frequencies / factor


def _ntk_aware(frequencies: Tensor, factor: float) -> Tensor:
    last = max(1, len(frequencies) - 1)
    index = torch.arange(len(frequencies), device=frequencies.device, dtype=frequencies.dtype)
    return frequencies * factor ** (-index / last)


class RopeScaling(Axis):
    """Rotation for inputs `factor` times as long as in training: `level(frequencies, factor)`.

    It acts where a model is evaluated at such lengths; in training the factor is 1.
    """

    none = Level(
        lambda frequencies, factor: frequencies, "angles beyond training, as they come", "Su 2021"
    )
    position_interpolation = Level(
        _interpolated, "positions squeezed into the trained range", "Chen et al. 2023, eq. 4"
    )
    ntk_aware = Level(
        _ntk_aware,
        "a larger base: slow waves are squeezed, fast ones are kept",
        "bloc97 2023; Peng et al. 2024 (YaRN), definition 1",
    )

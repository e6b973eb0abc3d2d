"""Axes of the feed-forward network: its kind and its activation."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from lightning_modules.axis import Axis, Level
from lightning_modules.dropout import Dropout

MakeLinear = Callable[..., nn.Linear]


class Activation(Axis):
    """The function between the maps: `level(x) -> x`, on any shape."""

    relu = Level(F.relu, "zero below zero", "Vaswani et al. 2017, eq. 2")
    gelu = Level(F.gelu, "smooth: x times the normal distribution of x", "Hendrycks & Gimpel 2016")
    silu = Level(F.silu, "smooth: x times its sigmoid", "Elfwing et al. 2018; Shazeer 2020")


class FeedForward(nn.Module):
    """Two linear maps with an activation between (Vaswani et al. 2017, eq. 2), on `(…, d_model)`.

    Args:
        d_model: width outside.
        d_ff: width inside.
        activation: between the maps.
        dropout: rate inside.
        make_linear: makes an inner map from its inputs and outputs.
        make_last: makes the map that ends the branch.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: Activation,
        dropout: float,
        make_linear: MakeLinear,
        make_last: MakeLinear,
    ) -> None:
        super().__init__()
        self.activation, self.dropout = activation, Dropout(dropout)
        self.inner, self.outer = make_linear(d_model, d_ff), make_last(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to each position by itself."""
        return self.outer(self.dropout(self.activation(self.inner(x))))


class GatedFeedForward(FeedForward):
    """`outer(activation(gate(x)) * inner(x))` (Shazeer 2020, eq. 6): three maps."""

    def __init__(
        self, d_model: int, d_ff: int, *, make_linear: MakeLinear, **others: object
    ) -> None:
        super().__init__(d_model, d_ff, make_linear=make_linear, **others)  # type: ignore[arg-type]
        self.gate = make_linear(d_model, d_ff)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to each position by itself."""
        return self.outer(self.dropout(self.activation(self.gate(x)) * self.inner(x)))


def _gated_equal_parameters(d_model: int, d_ff: int, **others: object) -> GatedFeedForward:
    return GatedFeedForward(d_model, round(2 * d_ff / 3), **others)  # type: ignore[arg-type]


class FeedForwardKind(Axis):
    """The feed-forward network of a block: `level(d_model, d_ff, ...) -> module`, or None."""

    mlp = Level(FeedForward, "two maps, d_ff wide between them", "Vaswani et al. 2017, eq. 2")
    gated = Level(
        GatedFeedForward, "a third map gates the inside: 1.5 times the parameters", "Shazeer 2020"
    )
    gated_equal_parameters = Level(
        _gated_equal_parameters,
        "gated, 2/3 of d_ff wide: as many parameters as mlp",
        "Shazeer 2020, section 3.1",
    )
    none = Level(
        lambda d_model, d_ff, **others: None,
        "attention only",
        "Dong et al. 2021, for the claim that depth is then one linear map",
    )

    @property
    def built(self) -> bool:
        """Whether there is a feed-forward network at all."""
        return self is not FeedForwardKind.none

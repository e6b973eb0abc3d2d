"""Axes of normalisation: where the norm stands, and which sub-layers share its parameters."""

from collections.abc import Callable

from torch import Tensor, nn

from lightning_modules.axis import Axis, Level

MakeNorm = Callable[[], nn.Module]


class PreNorm(nn.Module):
    """`x + dropout(sublayer(norm(x)))` (Xiong et al. 2020, fig. 1b).

    Shapes `(batch, length, d_model)`.
    """

    ends_with_norm = False

    def __init__(self, make_norm: MakeNorm, dropout: nn.Module) -> None:
        super().__init__()
        self.norm, self.dropout = make_norm(), dropout

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Wire `sublayer` into the residual stream `x`."""
        return x + self.dropout(sublayer(self.norm(x)))


class PostNorm(nn.Module):
    """`norm(x + dropout(sublayer(x)))` (Vaswani et al. 2017, section 3.1).

    Shapes as in `PreNorm`.
    """

    ends_with_norm = True

    def __init__(self, make_norm: MakeNorm, dropout: nn.Module) -> None:
        super().__init__()
        self.norm, self.dropout = make_norm(), dropout

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Wire `sublayer` into the residual stream `x`."""
        return self.norm(x + self.dropout(sublayer(x)))


class NormPosition(Axis):
    """The wiring around a sub-layer: `level(make_norm, dropout) -> module(x, sublayer)`.

    A stack whose wiring does not end with a norm gets one at its end.
    """

    pre = Level(
        PreNorm,
        "an unbroken residual path: trains smoothly at depth and without warm-up",
        "Xiong et al. 2020; Nguyen & Salazar 2019",
    )
    post = Level(
        PostNorm,
        "the original order: strong when it trains, sensitive to rate and warm-up",
        "Vaswani et al. 2017, section 3.1",
    )


def _separate(make_norm: MakeNorm) -> MakeNorm:
    return make_norm


def _shared(make_norm: MakeNorm) -> MakeNorm:
    norm = make_norm()
    return lambda: norm


class NormSharing(Axis):
    """Which sub-layers of a block share one norm: `level(make_norm) -> make_norm of the block`."""

    separate = Level(
        _separate, "each sub-layer has its own gain and bias", "Vaswani et al. 2017, section 3.1"
    )
    shared = Level(
        _shared,
        "one norm for all sub-layers of a block",
        "for the claim that shared norm parameters visibly hurt",
    )

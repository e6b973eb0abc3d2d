"""Axes of normalisation: which norm, where it stands, and who shares its parameters."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from lightning_modules.axis import Axis, Level

MakeNorm = Callable[[], nn.Module]
Sublayer = Callable[[Tensor], Tensor]


class LayerNorm(nn.LayerNorm):
    """Each position scaled to mean 0 and variance 1 over its features (Ba et al. 2016, eq. 4)."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Map `(batch, length, d_model)` to the same shape; padding plays no part."""
        return super().forward(x)


class RMSNorm(nn.RMSNorm):
    """Each position divided by its root mean square (Zhang & Sennrich 2019, eq. 4)."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Map `(batch, length, d_model)` to the same shape; padding plays no part."""
        # Autocast does so on a GPU alone; half precision has no fused kernel.
        return super().forward(x.to(self.weight.dtype))


class MaskedBatchNorm(nn.BatchNorm1d):
    """Each feature scaled by its statistics over the batch's real positions (Ioffe & Szegedy 2015).

    Padding is left out of the statistics, but in training a position still depends on its
    neighbours in the batch, and in a decoder on the future. Evaluation uses running statistics.
    """

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Map `(batch, length, d_model)` to the same shape; `real` `(batch, length)` or None."""
        if not self.training:
            return super().forward(x.flatten(0, -2)).view_as(x)
        if real is None:
            real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        normed = torch.zeros_like(x)
        normed[real] = super().forward(x[real]).to(normed.dtype)
        return normed


class NoNorm(nn.Identity):
    """What passes through is left as it is."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Return `x`."""
        return x


class NormKind(Axis):
    """The norm: `level(d_model, eps=) -> module(x, real)`; `real` marks what is no padding."""

    layer_norm = Level(
        LayerNorm, "each position by its own mean and variance", "Ba et al. 2016, eq. 4"
    )
    rms_norm = Level(
        RMSNorm, "each position by its root mean square: no mean, no bias", "Zhang & Sennrich 2019"
    )
    batch_norm_masked = Level(
        MaskedBatchNorm,
        "each feature by its statistics over the batch without padding; a decoder in training sees "
        "the future through them",
        "Ioffe & Szegedy 2015; Shen et al. 2020",
        breaks=frozenset({"batch_independence", "training_causality"}),
    )
    none = Level(
        lambda d_model, eps: NoNorm(), "no norm anywhere", "for the claim that it is needed"
    )


class Wiring(nn.Module):
    """What stands around a sub-layer. Shapes `(batch, length, d_model)`.

    Args:
        make_norm: gives the norm, one call for each place.
        residual: joins the stream and the sub-layer's output.
        dropout: on the sub-layer's output.
    """

    ends_with_norm = False

    def __init__(self, make_norm: MakeNorm, residual: nn.Module, dropout: nn.Module) -> None:
        super().__init__()
        self.norm, self.residual, self.dropout = make_norm(), residual, dropout


class PreNorm(Wiring):
    """`x + dropout(sublayer(norm(x)))` (Xiong et al. 2020, fig. 1b)."""

    def forward(self, x: Tensor, sublayer: Sublayer, real: Tensor | None = None) -> Tensor:
        """Wire `sublayer` into the residual stream `x`; `real` `(batch, length)` is for norms."""
        return self.residual(x, self.dropout(sublayer(self.norm(x, real))))


class PostNorm(Wiring):
    """`norm(x + dropout(sublayer(x)))` (Vaswani et al. 2017, section 3.1)."""

    ends_with_norm = True

    def forward(self, x: Tensor, sublayer: Sublayer, real: Tensor | None = None) -> Tensor:
        """Wire `sublayer` into the residual stream `x`; `real` `(batch, length)` is for norms."""
        return self.norm(self.residual(x, self.dropout(sublayer(x))), real)


class SandwichNorm(Wiring):
    """`x + dropout(norm(sublayer(norm(x))))` (Ding et al. 2021, section 2.4)."""

    def __init__(self, make_norm: MakeNorm, residual: nn.Module, dropout: nn.Module) -> None:
        super().__init__(make_norm, residual, dropout)
        self.branch_norm = make_norm()

    def forward(self, x: Tensor, sublayer: Sublayer, real: Tensor | None = None) -> Tensor:
        """Wire `sublayer` into the residual stream `x`; `real` `(batch, length)` is for norms."""
        branch = self.branch_norm(sublayer(self.norm(x, real)), real)
        return self.residual(x, self.dropout(branch))


class WrongBranch(Wiring):
    """`norm(y + dropout(sublayer(y)))` with `y = norm(x)`: the stream itself is normed, twice."""

    ends_with_norm = True

    def forward(self, x: Tensor, sublayer: Sublayer, real: Tensor | None = None) -> Tensor:
        """Wire `sublayer` into the residual stream `x`; `real` `(batch, length)` is for norms."""
        normed = self.norm(x, real)
        return self.norm(self.residual(normed, self.dropout(sublayer(normed))), real)


class NormPosition(Axis):
    """The wiring around a sub-layer: `level(make_norm, residual, dropout) -> module(x, sublayer)`.

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
    sandwich = Level(
        SandwichNorm,
        "pre-norm with a second norm at the end of the branch, which bounds what it adds",
        "Ding et al. 2021 (CogView), section 2.4",
    )
    wrong_branch = Level(
        WrongBranch,
        "post-norm half turned into pre-norm: the norm after the residual, and reused before it",
        "a common mistake: the residual taken from the wrong side of the norm",
    )

    @property
    def ends_with_norm(self) -> bool:
        """Whether what leaves a block has gone through a norm."""
        return self.value.make.ends_with_norm  # type: ignore[attr-defined]


def _separate(make_norm: MakeNorm) -> Callable[[], MakeNorm]:
    return lambda: make_norm


def _shared(make_norm: MakeNorm) -> Callable[[], MakeNorm]:
    return lambda: _always(make_norm())


def _shared_in_stack(make_norm: MakeNorm) -> Callable[[], MakeNorm]:
    of_all_blocks = _always(make_norm())
    return lambda: of_all_blocks


def _always(norm: nn.Module) -> MakeNorm:
    return lambda: norm


class NormSharing(Axis):
    """Which sub-layers share one norm: `level(make_norm)()` is the `make_norm` of a block.

    The norm at the end of a stack is always its own.
    """

    separate = Level(
        _separate, "each sub-layer has its own gain and bias", "Vaswani et al. 2017, section 3.1"
    )
    shared = Level(
        _shared,
        "one norm for all sub-layers of a block",
        "for the claim that shared norm parameters visibly hurt",
    )
    shared_in_stack = Level(
        _shared_in_stack,
        "one norm for all sub-layers of all blocks",
        "Lan et al. 2020 (ALBERT), section 3.1, for the norms alone",
    )

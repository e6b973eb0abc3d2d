"""The residual axis: how the stream and a sub-layer's output are joined."""

import torch
from torch import Tensor, nn

from lightning_modules.axis import Axis, Level


class Residual(nn.Module):
    """`x + branch` (He et al. 2016, eq. 1).

    Args:
        n_branches: residual branches in the stack.
    """

    def __init__(self, n_branches: int) -> None:
        super().__init__()

    def forward(self, x: Tensor, branch: Tensor) -> Tensor:
        """Join two tensors `(batch, length, d_model)`."""
        return x + branch


class NoResidual(Residual):
    """The branch alone."""

    def forward(self, x: Tensor, branch: Tensor) -> Tensor:
        """Return the branch."""
        return branch


class ReZero(Residual):
    """`x + a · branch` with a trained scalar that starts at 0 (Bachlechner et al. 2021, eq. 2)."""

    def __init__(self, n_branches: int) -> None:
        super().__init__(n_branches)
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, branch: Tensor) -> Tensor:
        """Join two tensors `(batch, length, d_model)`."""
        return x + self.weight * branch


class DepthScaled(Residual):
    """`x + branch / sqrt(n_branches)` (Hayou et al. 2021, eq. 2)."""

    def __init__(self, n_branches: int) -> None:
        super().__init__(n_branches)
        self.factor = n_branches**-0.5

    def forward(self, x: Tensor, branch: Tensor) -> Tensor:
        """Join two tensors `(batch, length, d_model)`."""
        return x + self.factor * branch


class ResidualKind(Axis):
    """How a sub-layer's output joins the stream: `level(n_branches) -> module(x, branch)`."""

    add = Level(Residual, "the stream plus the branch", "He et al. 2016; Vaswani et al. 2017, 3.1")
    none = Level(
        NoResidual, "the branch alone", "for the claim that deep stacks then fail to train"
    )
    rezero = Level(
        ReZero,
        "a trained weight on each branch, zero at the start: every block begins as the identity",
        "Bachlechner et al. 2021",
    )
    depth_scaled = Level(
        DepthScaled,
        "each branch divided by the square root of their number: the stream's variance stays "
        "bounded at any depth",
        "Hayou et al. 2021 (Stable ResNet)",
    )

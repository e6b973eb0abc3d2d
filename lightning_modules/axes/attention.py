"""Axes of the attention function: the scale of the scores and the way keys are masked."""

import math

from torch import Tensor

from lightning_modules.axis import Axis, Level


def _sqrt_d_head(d_head: int) -> float:
    return 1.0 / math.sqrt(d_head)


def _no_scale(d_head: int) -> float:
    return 1.0


class AttentionScale(Axis):
    """The factor that multiplies the scores q·k before the softmax: `level(d_head) -> float`."""

    sqrt_d_head = Level(
        _sqrt_d_head,
        "1/sqrt(d_head) brings the variance of a score back to 1",
        "Vaswani et al. 2017, eq. 1",
    )
    none = Level(
        _no_scale,
        "raw dot products, whose variance grows with d_head",
        "Luong et al. 2015, dot score",
    )


def minus_inf(scores: Tensor, allowed: Tensor) -> Tensor:
    """Hide keys with -inf before the softmax; a query without any key gets zero weights.

    A plain softmax over a row of -inf is NaN, forward and backward, so a row without any key is
    opened before the softmax and zeroed after it.
    """
    some_key = allowed.any(-1, keepdim=True)
    weights = scores.masked_fill(~allowed & some_key, -math.inf).softmax(-1)
    return weights.masked_fill(~some_key, 0.0)


def minus_1e9(scores: Tensor, allowed: Tensor) -> Tensor:
    """Hide keys with the finite value -1e9; a query without any key attends evenly to all keys."""
    return scores.masked_fill(~allowed, -1e9).softmax(-1)


def post_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Zero the weights of hidden keys after the softmax, which has then already seen them."""
    return scores.softmax(-1).masked_fill(~allowed, 0.0)


class MaskMethod(Axis):
    """How keys are hidden: `level(scores, allowed) -> weights`, all `(batch, heads, query, key)`.

    `allowed` is True where a key may be attended to.
    """

    minus_inf = Level(
        minus_inf,
        "exact zero weight for hidden keys; zeros for a query that has no key at all",
        "Vaswani et al. 2017, section 3.2.3",
    )
    minus_1e9 = Level(
        minus_1e9,
        "a large finite value in place of -inf; a query without a key attends to padding",
        "Vaswani et al. 2017, reference code",
    )
    post_softmax = Level(
        post_softmax,
        "weights zeroed after the softmax: rows no longer sum to 1, and hidden keys leak into "
        "the normaliser",
        "a common mistake: zeroing weights in place of hiding scores",
        breaks=frozenset({"causality", "padding_invariance", "cached_decoding"}),
    )

    @property
    def fusable(self) -> bool:
        """Whether fused attention computes the same function."""
        return self is MaskMethod.minus_inf

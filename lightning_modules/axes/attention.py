"""Axes of the attention function: scale, mask, causality, and the norm of queries and keys."""

import math

import torch
from torch import Tensor, nn

from lightning_modules.axes.norms import RMSNorm
from lightning_modules.axis import Axis, Level


def _sqrt_d_head(d_head: int) -> float:
    return 1.0 / math.sqrt(d_head)


def _no_scale(d_head: int) -> float:
    return 1.0


def _inverse_d_head(d_head: int) -> float:
    return 1.0 / d_head


class AttentionScale(Axis):
    """The factor that multiplies the scores q·k before the softmax: `level(d_head) -> float`.

    `d_head` is the width of a query.
    """

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
    inverse_d_head = Level(
        _inverse_d_head,
        "1/d_head keeps the scores of aligned, trained queries and keys bounded as width grows",
        "Yang et al. 2021 (muP), definition 4.1",
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


def dtype_min(scores: Tensor, allowed: Tensor) -> Tensor:
    """Hide keys with the most negative number of the scores' own format, whatever it is."""
    return scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1)


def post_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Zero the weights of hidden keys after the softmax, which has then already seen them."""
    return scores.softmax(-1).masked_fill(~allowed, 0.0)


def post_softmax_renormalised(scores: Tensor, allowed: Tensor) -> Tensor:
    """Zero the weights of hidden keys after the softmax, then divide by what is left.

    Equal to `minus_inf` in exact arithmetic. Where hidden keys have taken all of the weight that
    the number format can hold, nothing is left and the row is zero.
    """
    kept = post_softmax(scores, allowed)
    return kept / kept.sum(-1, keepdim=True).clamp_min(torch.finfo(kept.dtype).tiny)


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
    dtype_min = Level(
        dtype_min,
        "the most negative number of the format in use: as minus_1e9, but storable in fp16",
        "a common practice of libraries that run in half precision",
    )
    post_softmax = Level(
        post_softmax,
        "weights zeroed after the softmax: rows no longer sum to 1, and hidden keys leak into "
        "the normaliser",
        "a common mistake: zeroing weights in place of hiding scores",
        breaks=frozenset({"causality", "padding_invariance", "cached_decoding"}),
    )

    post_softmax_renormalised = Level(
        post_softmax_renormalised,
        "weights zeroed after the softmax and rescaled to sum to 1: the same function as "
        "minus_inf, until hidden scores outweigh all others",
        "the usual repair of post_softmax",
    )

    @property
    def fusable(self) -> bool:
        """Whether fused attention computes the same function."""
        return self is MaskMethod.minus_inf


class CausalMask(Axis):
    """Whether a decoder hides the future from its queries: `level() -> bool`."""

    correct = Level(
        lambda: True,
        "each position sees itself and what is before it",
        "Vaswani et al. 2017, 3.2.3",
    )
    leaky = Level(
        lambda: False,
        "the padding mask in the place of the causal one: the decoder sees the answer",
        "a common mistake: two mask arguments mixed up",
        breaks=frozenset({"causality", "cached_decoding"}),
    )


class QueryKeyNorm(Axis):
    """What queries and keys pass through before they are compared: `level(d_head) -> module`."""

    none = Level(
        lambda d_head: nn.Identity(), "compared as projected", "Vaswani et al. 2017, section 3.2.1"
    )
    rms = Level(
        RMSNorm,
        "each query and key scaled to unit root mean square: scores cannot grow without bound",
        "Henry et al. 2020; Dehghani et al. 2023, section 2",
    )

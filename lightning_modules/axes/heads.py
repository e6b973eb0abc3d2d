"""Axes of the heads: how they are cut out of a projection, and how many share keys and values."""

from torch import Tensor

from lightning_modules.axis import Axis, Level


def _split(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _split_without_transposing(x: Tensor, n_heads: int) -> Tensor:
    batch, length, width = x.shape
    return x.reshape(batch, n_heads, length, width // n_heads)


class HeadSplit(Axis):
    """How a projection is cut into heads: `level(x, n_heads) -> heads`.

    From `(batch, length, heads * d_head)` to `(batch, heads, length, d_head)`.
    """

    correct = Level(
        _split, "a head is a slice of the width, at every position", "Vaswani et al. 2017, 3.2.2"
    )
    interleaved_wrong = Level(
        _split_without_transposing,
        "reshaped without the transpose: same shapes, no error, but a head's rows are cut from "
        "other tokens, later ones among them",
        "a common mistake: the axes in the wrong order",
        breaks=frozenset({"causality", "padding_invariance", "cached_decoding"}),
    )


class HeadSharing(Axis):
    """How many heads have keys and values of their own: `level(n_heads, groups) -> int`.

    `groups` is `dims.n_key_value_heads`.
    """

    multi_head = Level(
        lambda n_heads, groups: n_heads,
        "keys and values for each head",
        "Vaswani et al. 2017, section 3.2.2",
    )
    multi_query = Level(
        lambda n_heads, groups: 1,
        "one set of keys and values for all heads: the smallest cache",
        "Shazeer 2019",
    )
    grouped_query = Level(
        lambda n_heads, groups: groups,
        "dims.n_key_value_heads sets of keys and values, each shared by a group of heads",
        "Ainslie et al. 2023",
    )

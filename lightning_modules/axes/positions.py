"""The position axis. A scheme has hooks, each of which does nothing unless overridden."""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from lightning_modules.axis import Axis, Level

if TYPE_CHECKING:
    from lightning_modules.design import Design, Dims

T5_BUCKETS, T5_FARTHEST = 32, 128
SHAW_FARTHEST = 16


class PositionScheme(nn.Module):
    """How token order enters a stack. This base class is the level without positions.

    Args:
        design: the choices; a scheme reads those that concern it.
        dims: the sizes.
        causal: whether the stack is a decoder, whose queries see the past only.

    Attributes:
        has_vectors: whether there is a vector for each position.
        longest: positions that the scheme is defined for; None without a limit.
    """

    has_vectors = False

    def __init__(self, design: "Design", dims: "Dims", *, causal: bool) -> None:
        super().__init__()
        self.longest = self.defined_up_to(dims)

    @classmethod
    def defined_up_to(cls, dims: "Dims") -> int | None:
        """Positions that a scheme of these sizes is defined for; None without a limit."""
        return None

    def vectors(self, positions: Tensor) -> Tensor | None:
        """A vector for each of `positions` `(length,)`, `(length, d_model)`, or None."""
        return None

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Turn queries or keys `(batch, heads, length, width)` at `positions` `(length,)`."""
        return heads

    def bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """A term for the scores, broadcastable to `(batch, heads, query, key)`, or None.

        `query` `(batch, heads, query, width)` is scaled as the scores are.
        """
        return None

    def stretch(self, factor: float) -> None:
        """Prepare for inputs `factor` times as long as those of the training."""


def stretch_positions(model: nn.Module, factor: float) -> None:
    """Tell every scheme of a model how much longer than in training its inputs are, 1 at least."""
    for part in model.modules():
        if isinstance(part, PositionScheme):
            part.stretch(max(1.0, factor))


def sinusoids(positions: Tensor, d_model: int) -> Tensor:
    """The table of Vaswani et al. 2017, section 3.5: `(length, d_model)`.

    `PE[p, 2i] = sin(p / 10000^(2i/d_model))` and `PE[p, 2i+1] = cos(p / 10000^(2i/d_model))`.
    An odd width ends with a sine.
    """
    exponents = torch.arange(0, d_model, 2, dtype=torch.double, device=positions.device) / d_model
    angles = positions[:, None] * torch.exp(-math.log(10000.0) * exponents)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]


class Sinusoidal(PositionScheme):
    """Fixed sines and cosines (Vaswani et al. 2017, section 3.5)."""

    has_vectors = True

    def __init__(self, design: "Design", dims: "Dims", *, causal: bool) -> None:
        super().__init__(design, dims, causal=causal)
        self.d_model = dims.d_model

    def vectors(self, positions: Tensor) -> Tensor:
        """The table's rows."""
        return sinusoids(positions, self.d_model)


class Learned(PositionScheme):
    """A trained vector for each position (Gehring et al. 2017)."""

    has_vectors = True

    def __init__(self, design: "Design", dims: "Dims", *, causal: bool) -> None:
        super().__init__(design, dims, causal=causal)
        self.table = nn.Embedding(dims.max_length, dims.d_model)
        nn.init.normal_(self.table.weight, std=0.02)

    @classmethod
    def defined_up_to(cls, dims: "Dims") -> int:
        """The table's rows."""
        return dims.max_length

    def vectors(self, positions: Tensor) -> Tensor:
        """The table's rows."""
        return self.table(positions)


class Rotary(PositionScheme):
    """Rotary positions (Su et al. 2021, eq. 34), rotating the two halves of each head.

    The score of a rotated query and key depends on the distance of their positions only.
    """

    frequencies: Tensor

    def __init__(self, design: "Design", dims: "Dims", *, causal: bool) -> None:
        super().__init__(design, dims, causal=causal)
        exponents = torch.arange(0, dims.d_key, 2, dtype=torch.double) / dims.d_key
        frequencies = (dims.rope_base**-exponents).float()
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.scaling, self.factor = design.rope_scaling, 1.0

    def stretch(self, factor: float) -> None:
        """Slow the rotation down for inputs `factor` times as long, as the design says."""
        self.factor = factor

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Turn each pair (i, i + width/2) by its frequency times the position."""
        angles = positions[:, None] * self.scaling(self.frequencies, self.factor)
        cosine, sine = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
        first, second = heads.chunk(2, dim=-1)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def alibi_slopes(n_heads: int, exponent: float = 8.0) -> list[float]:
    """The slopes of Press et al. 2022, section 3, by the authors' rule for any number of heads.

    A power of two gets the geometric sequence that ends with `2^-exponent`. Another number gets the
    slopes of the power of two below it, then every other slope of the power of two above it.
    """
    below = 2 ** math.floor(math.log2(n_heads))
    slopes = [2.0 ** (-exponent * (i + 1) / below) for i in range(below)]
    between = [2.0 ** (-exponent / 2 * (i + 1) / below) for i in range(0, 2 * below, 2)]
    return slopes + between[: n_heads - below]


class Alibi(PositionScheme):
    """Attention with linear biases: `-slope · |query - key|` (Press et al. 2022, section 3).

    The paper is causal; in an encoder the distance counts both ways.
    """

    slopes: Tensor

    def __init__(self, design: "Design", dims: "Dims", *, causal: bool) -> None:
        super().__init__(design, dims, causal=causal)
        slopes = torch.tensor(alibi_slopes(dims.n_heads, dims.alibi_exponent))[:, None, None]
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """The penalty for distance, `(1, heads, query, key)`."""
        distance = (query_positions[:, None] - key_positions[None, :]).abs()
        return (-self.slopes * distance)[None]


def t5_bucket(offset: Tensor, *, causal: bool) -> Tensor:
    """The bucket of `offset` = key - query, of the same shape (Raffel et al. 2020, section 2.1).

    Near offsets have a bucket each, far ones share logarithmically growing ones. A decoder uses
    all buckets for the past, an encoder half of them for each direction.
    """
    n_buckets = T5_BUCKETS if causal else T5_BUCKETS // 2
    distance = (-offset).clamp_min(0) if causal else offset.abs()
    near = n_buckets // 2
    growth = (distance.clamp_min(1) / near).log() / math.log(T5_FARTHEST / near)
    far = (near + (growth * (n_buckets - near)).long()).clamp_max(n_buckets - 1)
    bucket = torch.where(distance < near, distance, far)
    return bucket if causal else bucket + n_buckets * (offset > 0)


class T5Bias(PositionScheme):
    """A trained bias for each bucket of distances and each head (Raffel et al. 2020, section 2.1).

    All layers of a stack share it, as in the paper.
    """

    def __init__(self, design: "Design", dims: "Dims", *, causal: bool) -> None:
        super().__init__(design, dims, causal=causal)
        self.causal = causal
        self.biases = nn.Embedding(T5_BUCKETS, dims.n_heads)
        nn.init.normal_(self.biases.weight, std=dims.d_model**-0.5)

    def bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """The bias of each distance, `(1, heads, query, key)`."""
        offset = key_positions[None, :] - query_positions[:, None]
        biases = self.biases(t5_bucket(offset, causal=self.causal)).permute(2, 0, 1)[None]
        return biases.contiguous()  # fused kernels on a GPU take no other


class ShawKeys(PositionScheme):
    """A trained vector for each distance, added to the keys (Shaw et al. 2018, eq. 4 and 5).

    Distances are clipped at 16, as in the paper. Heads share the vectors, as in the paper, and so
    do the layers of a stack.
    """

    def __init__(self, design: "Design", dims: "Dims", *, causal: bool) -> None:
        super().__init__(design, dims, causal=causal)
        self.keys = nn.Embedding(2 * SHAW_FARTHEST + 1, dims.d_key)
        nn.init.xavier_uniform_(self.keys.weight)

    def bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """The scaled product of each query with the vector of each distance, `(b, h, q, k)`."""
        offset = key_positions[None, :] - query_positions[:, None]
        clipped = offset.clamp(-SHAW_FARTHEST, SHAW_FARTHEST) + SHAW_FARTHEST
        by_distance = query @ self.keys.weight.T.to(query.dtype)
        return by_distance.gather(-1, clipped.expand(*query.shape[:2], -1, -1))


class Position(Axis):
    """How token order enters: `level(design, dims, causal=) -> PositionScheme`."""

    sinusoidal = Level(
        Sinusoidal,
        "fixed waves: no parameters, defined at every length",
        "Vaswani et al. 2017, section 3.5",
    )
    none = Level(
        PositionScheme,
        "no positions: an encoder is then blind to order, a causal decoder is not",
        "Kazemnejad et al. 2023",
    )
    learned = Level(
        Learned,
        "a trained vector for each position, not defined beyond dims.max_length",
        "Gehring et al. 2017; Vaswani et al. 2017, table 3 row E",
    )
    rope = Level(
        Rotary,
        "queries and keys are rotated, so scores depend on relative distance",
        "Su et al. 2021, eq. 34",
    )
    alibi = Level(
        Alibi, "scores fall linearly with distance, with a slope per head", "Press et al. 2022"
    )
    relative = Level(
        T5Bias, "a trained bias for each bucket of distances", "Raffel et al. 2020, section 2.1"
    )
    shaw = Level(
        ShawKeys, "a trained vector for each distance, added to the keys", "Shaw et al. 2018, eq. 5"
    )

    def undefined_at(self, length: int, *, dims: "Dims") -> str:
        """Why an input of `length` tokens has no positions; empty where it has."""
        limit = self.value.make.defined_up_to(dims)  # type: ignore[attr-defined]
        if limit is None or length <= limit:
            return ""
        return f"design.position {self} is not defined beyond dims.max_length {limit} tokens"

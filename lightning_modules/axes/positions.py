"""The position axis. A scheme has three hooks, each of which does nothing unless overridden."""

import math

import torch
from torch import Tensor, nn

from lightning_modules.axis import Axis, Level


class PositionScheme(nn.Module):
    """How token order enters the model. This base class is the level without positions.

    Args:
        d_model: width of the embeddings.
        n_heads: number of attention heads.
        max_length: tokens in a learned table; other schemes have no limit.
    """

    def __init__(self, *, d_model: int, n_heads: int, max_length: int) -> None:
        super().__init__()

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add to embeddings `(batch, length, d_model)` at `positions` `(length,)`."""
        return x

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Turn queries or keys `(batch, heads, length, d_head)` at `positions` `(length,)`."""
        return heads

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """A term for the scores, broadcastable to `(batch, heads, query, key)`, or None."""
        return None


def sinusoids(positions: Tensor, d_model: int) -> Tensor:
    """The table of Vaswani et al. 2017, section 3.5: `(length, d_model)`.

    `PE[p, 2i] = sin(p / 10000^(2i/d_model))` and `PE[p, 2i+1] = cos(p / 10000^(2i/d_model))`.
    An odd width ends with a sine.
    """
    exponents = torch.arange(0, d_model, 2, dtype=torch.double, device=positions.device) / d_model
    angles = positions[:, None] * torch.exp(-math.log(10000.0) * exponents)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]


class Sinusoidal(PositionScheme):
    """Fixed sines and cosines added to the embeddings (Vaswani et al. 2017, section 3.5)."""

    def __init__(self, *, d_model: int, n_heads: int, max_length: int) -> None:
        super().__init__(d_model=d_model, n_heads=n_heads, max_length=max_length)
        self.d_model = d_model

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add the table's rows."""
        return x + sinusoids(positions, self.d_model).to(x.dtype)


class Learned(PositionScheme):
    """A trained vector for each position, added to the embeddings (Gehring et al. 2017)."""

    def __init__(self, *, d_model: int, n_heads: int, max_length: int) -> None:
        super().__init__(d_model=d_model, n_heads=n_heads, max_length=max_length)
        self.table = nn.Embedding(max_length, d_model)
        nn.init.normal_(self.table.weight, std=0.02)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add the table's rows.

        Raises:
            ValueError: the input is longer than the table.
        """
        length = x.shape[1]
        if length > self.table.num_embeddings or positions.numel() > self.table.num_embeddings:
            raise ValueError(self._undefined(length))
        return x + self.table(positions)

    def _undefined(self, length: int) -> str:
        return (
            f"learned positions are not defined beyond {self.table.num_embeddings} tokens, the "
            f"input has {length}; raise dims.max_length or choose another design.position"
        )


class Rotary(PositionScheme):
    """Rotary positions (Su et al. 2021, eq. 34), rotating the two halves of each head.

    The score of a rotated query and key depends on the distance of their positions only.
    """

    frequencies: Tensor

    def __init__(self, *, d_model: int, n_heads: int, max_length: int) -> None:
        super().__init__(d_model=d_model, n_heads=n_heads, max_length=max_length)
        d_head = d_model // n_heads
        frequencies = 10000.0 ** (-torch.arange(0, d_head, 2, dtype=torch.double) / d_head)
        self.register_buffer("frequencies", frequencies.float(), persistent=False)

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Turn each pair (i, i + d_head/2) by its frequency times the position."""
        angles = positions[:, None] * self.frequencies
        cosine, sine = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
        first, second = heads.chunk(2, dim=-1)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def alibi_slopes(n_heads: int) -> list[float]:
    """The slopes of Press et al. 2022, section 3, by the authors' rule for any number of heads.

    A power of two gets the geometric sequence from `2^(-8/n)`. Another number gets the slopes of
    the power of two below it, then every other slope of the power of two above it.
    """
    below = 2 ** math.floor(math.log2(n_heads))
    slopes = [2.0 ** (-8.0 * (i + 1) / below) for i in range(below)]
    between = [2.0 ** (-4.0 * (i + 1) / below) for i in range(0, 2 * below, 2)]
    return slopes + between[: n_heads - below]


class Alibi(PositionScheme):
    """Attention with linear biases: `-slope · |query - key|` (Press et al. 2022, section 3).

    The paper is causal; in an encoder the distance counts both ways.
    """

    slopes: Tensor

    def __init__(self, *, d_model: int, n_heads: int, max_length: int) -> None:
        super().__init__(d_model=d_model, n_heads=n_heads, max_length=max_length)
        slopes = torch.tensor(alibi_slopes(n_heads))[:, None, None]
        self.register_buffer("slopes", slopes, persistent=False)

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """The penalty for distance, `(1, heads, query, key)`."""
        distance = (query_positions[:, None] - key_positions[None, :]).abs()
        return (-self.slopes * distance)[None]


class Position(Axis):
    """How token order enters: `level(d_model=, n_heads=, max_length=) -> PositionScheme`."""

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

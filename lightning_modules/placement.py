"""Positions at work: a scheme bound to the positions of one input."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lightning_modules.axes.injection import Addition
from lightning_modules.axes.positions import PositionScheme


@dataclass(frozen=True, kw_only=True)
class Placement:
    """What a stack tells its layers about positions.

    Attributes:
        scheme: how order enters.
        injection: where the scheme's vectors enter, if it has any.
        positions: of the inputs, `(length,)`.
        vectors: of the inputs, `(length, d_model)`, or None.
    """

    scheme: PositionScheme
    injection: Addition | None
    positions: Tensor
    vectors: Tensor | None

    @classmethod
    def of(
        cls,
        scheme: PositionScheme,
        injection: Addition | None,
        *,
        start: int,
        length: int,
        device: torch.device,
    ) -> "Placement":
        """The placement of `length` inputs from position `start` on.

        Raises:
            ValueError: the scheme isn't defined at the last of them.
        """
        if scheme.longest is not None and start + length > scheme.longest:
            raise ValueError(
                f"learned positions are not defined beyond {scheme.longest} tokens, the input has "
                f"{start + length}; raise dims.max_length or choose another design.position"
            )
        positions = torch.arange(start, start + length, device=device)
        vectors = scheme.vectors(positions)
        return cls(scheme=scheme, injection=injection, positions=positions, vectors=vectors)

    def embed(self, x: Tensor) -> Tensor:
        """Embeddings `(batch, length, d_model)` with their positions."""
        if self.injection is None or self.vectors is None:
            return x
        return self.injection.embed(x, self.vectors)

    def value_input(self, x: Tensor) -> Tensor:
        """What the values of self-attention are projected from, `(batch, length, d_model)`."""
        if self.injection is None or self.vectors is None:
            return x
        return self.injection.values(x, self.vectors)

    def rotate(self, heads: Tensor) -> Tensor:
        """Queries or keys `(batch, heads, length, width)` of the inputs."""
        return self.scheme.rotate(heads, self.positions)

    def bias(self, query: Tensor, n_keys: int) -> Tensor | None:
        """A term for the scores of `query` against `n_keys` keys, counted from position 0."""
        keys = torch.arange(n_keys, device=query.device)
        return self.scheme.bias(query, self.positions, keys)

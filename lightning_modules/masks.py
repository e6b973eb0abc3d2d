"""The one mask type: what a query may attend to.

True always means "may be attended to". Attention accepts nothing else, so a mask of the other
polarity, or a padding mask in the place of a causal one, cannot be passed by mistake.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


def real_positions(lengths: Tensor, longest: int) -> Tensor:
    """Where right-padded rows of these `lengths` `(batch,)` are real: `(batch, longest)`."""
    return torch.arange(longest, device=lengths.device) < lengths[:, None]


@dataclass(frozen=True, kw_only=True)
class AttentionMask:
    """Which keys each query may attend to.

    Attributes:
        keep: booleans broadcastable to `(batch, heads, query, key)`, True where the key may be
            attended to; None where all may.
        causal: hide keys that come after the query. The last query is aligned with the last key,
            so that one query against many cached keys sees them all.
        right_padded: `keep` hides right padding and nothing else.
    """

    keep: Tensor | None = None
    causal: bool = False
    right_padded: bool = False

    def __post_init__(self) -> None:
        """Refuse what could be read in two ways.

        Raises:
            TypeError: the mask isn't boolean.
            ValueError: the mask hasn't four dimensions.
        """
        if self.keep is None:
            return
        if self.keep.dtype is not torch.bool:
            raise TypeError(f"a mask is boolean (True = may be attended to), not {self.keep.dtype}")
        if self.keep.dim() != 4:
            shape = tuple(self.keep.shape)
            raise ValueError(f"a mask has the shape (batch, heads, query, key), not {shape}")

    @classmethod
    def from_lengths(
        cls, lengths: Tensor, longest: int, *, causal: bool = False
    ) -> "AttentionMask":
        """Hide right padding: `lengths` `(batch,)` gives a mask `(batch, 1, 1, longest)`.

        On a CPU, rows without padding give none.
        """
        # To ask would hold up a GPU. Buckets of one length are common, and masks cost 3% of a step.
        if lengths.is_cpu and bool(lengths.eq(longest).all()):
            return cls(causal=causal)
        keep = real_positions(lengths, longest)[:, None, None, :]
        return cls(keep=keep, causal=causal, right_padded=True)

    def without_redundancy(self) -> "AttentionMask":
        """The same mask for all real queries: causality alone hides right padding from them."""
        return AttentionMask(causal=True) if self.causal and self.right_padded else self

    def allowed(self, n_queries: int, n_keys: int, device: torch.device) -> Tensor | None:
        """All restrictions in one boolean tensor, or None where there is none.

        Returns:
            Broadcastable to `(batch, heads, query, key)`, True where the key may be attended to.

        Raises:
            ValueError: the mask's shape doesn't fit the scores.
        """
        if self.keep is not None:
            rows, columns = self.keep.shape[-2:]
            if rows not in (1, n_queries) or columns not in (1, n_keys):
                raise ValueError(
                    f"a mask of {rows} x {columns} doesn't fit {n_queries} queries x {n_keys} keys"
                )
        if not self.causal or n_queries == 1:
            return self.keep
        ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
        causal = ones.tril(n_keys - n_queries)[None, None]
        return causal if self.keep is None else causal & self.keep

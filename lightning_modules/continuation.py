"""What generation needs of a model: the logits after new tokens, and to drop or repeat rows."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from lightning_modules.cache import Cache
from lightning_modules.masks import AttentionMask
from lightning_modules.transformer import EncoderDecoder


class Continuation(Protocol):
    """Rows of a batch being written; remembers what has been read."""

    def advance(self, tokens: Tensor) -> Tensor:
        """Read new tokens `(rows, new)` and return the logits after them, `(rows, vocabulary)`."""
        ...

    def select(self, rows: Tensor) -> None:
        """Keep or repeat rows, by index `(rows,)`."""
        ...


class DecoderContinuation:
    """Rows written by anything that maps tokens to logits.

    Args:
        step: maps tokens `(rows, new)` and a cache that it fills to logits
            `(rows, new, vocabulary)`; without a cache the tokens are those from the beginning on.
        n_layers: decoder layers that the cache has to remember.
        cached: False reads every row from its beginning at each step.
    """

    def __init__(
        self,
        step: Callable[[Tensor, Cache | None], Tensor],
        *,
        n_layers: int,
        cached: bool = True,
    ) -> None:
        self._step = step
        self._cache = Cache(n_layers) if cached else None
        self._tokens: Tensor | None = None

    def advance(self, tokens: Tensor) -> Tensor:
        """See `Continuation.advance`."""
        if self._cache is not None:
            return self._step(tokens, self._cache)[:, -1]
        read = self._tokens
        self._tokens = tokens if read is None else torch.cat([read, tokens], dim=1)
        return self._step(self._tokens, None)[:, -1]

    def select(self, rows: Tensor) -> None:
        """See `Continuation.select`."""
        if self._cache is not None:
            self._cache.select(rows)
        elif self._tokens is not None:
            self._tokens = self._tokens[rows]


class EncoderDecoderContinuation:
    """Targets written by an encoder-decoder for a batch of sources.

    Args:
        model: in evaluation mode.
        source: `(batch, source_length)`, right-padded.
        source_lengths: `(batch,)`.
        cached: False reads every row from its beginning at each step.
    """

    @torch.no_grad()
    def __init__(
        self, model: EncoderDecoder, source: Tensor, source_lengths: Tensor, *, cached: bool = True
    ) -> None:
        self._model = model
        self._memory, self._mask = model.encode(source, source_lengths)
        self._decoder = DecoderContinuation(
            self._step, n_layers=len(model.decoder.blocks), cached=cached
        )

    def advance(self, tokens: Tensor) -> Tensor:
        """See `Continuation.advance`."""
        return self._decoder.advance(tokens)

    def select(self, rows: Tensor) -> None:
        """See `Continuation.select`."""
        self._decoder.select(rows)
        self._memory, self._mask = self._memory[rows], select_rows(self._mask, rows)

    def _step(self, tokens: Tensor, cache: Cache | None) -> Tensor:
        states = self._model.decode(
            tokens, memory=self._memory, memory_mask=self._mask, cache=cache
        )
        return self._model.logits(states[:, -1:])


def select_rows(mask: AttentionMask, rows: Tensor) -> AttentionMask:
    """The mask of some batch rows, by index `(rows,)`."""
    return mask if mask.keep is None else AttentionMask(keep=mask.keep[rows], causal=mask.causal)

"""Windows of a token stream: how running text becomes rows of a batch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.data import Dataset

from data.batches import PAD_ID, SequenceBatch, target_mask


class Windows(Dataset[SequenceBatch]):
    """Windows that follow each other at a fixed stride, each scored on what is new in it.

    Every token of the stream but the first is the target of exactly one window. The first window
    is scored from its beginning; the others read `length - stride` tokens before. The last one may
    be shorter.

    Args:
        stream: token ids, `(tokens,)`, with something before the first token to predict.
        length: most tokens of a window's input.
        stride: tokens between two windows; `length` for windows that do not overlap.
    """

    def __init__(self, stream: Tensor, *, length: int, stride: int) -> None:
        self._stream, self._length = stream, length
        n_targets = len(stream) - 1
        self._starts = torch.arange(0, max(n_targets - length, 0) + stride, stride)
        self._lengths = (n_targets - self._starts).clamp(max=length)
        self._prompt_lengths = torch.full_like(self._starts, length - stride + 1)
        self._prompt_lengths[0] = 1

    def __len__(self) -> int:
        """Number of windows."""
        return len(self._starts)

    def __getitem__(self, rows: list[int]) -> SequenceBatch:
        """The windows of these positions, as a batch."""
        indices = torch.tensor(rows)
        lengths, prompt_lengths = self._lengths[indices], self._prompt_lengths[indices]
        offsets = torch.arange(int(lengths.max()))
        real = offsets < lengths[:, None]
        places = (self._starts[indices, None] + offsets).clamp(max=len(self._stream) - 2)
        return SequenceBatch(
            input=self._stream[places].where(real, PAD_ID),
            output=self._stream[places + 1].where(real, PAD_ID),
            loss_mask=target_mask(prompt_lengths, lengths),
            lengths=lengths,
            prompt_lengths=prompt_lengths,
            indices=indices,
        )


class PromptedRows(Dataset[SequenceBatch]):
    """Rows of one length whose first tokens are given; the others are targets.

    Args:
        tokens: token ids, `(rows, tokens)`.
        prompt_length: tokens that are given, at least 1.
    """

    def __init__(self, tokens: Tensor, *, prompt_length: int) -> None:
        self._tokens, self._prompt_length = tokens, prompt_length

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._tokens)

    def __getitem__(self, rows: list[int]) -> SequenceBatch:
        """The rows of these positions, as a batch."""
        tokens, indices = self._tokens[rows], torch.tensor(rows)
        lengths = torch.full_like(indices, tokens.shape[1] - 1)
        prompt_lengths = torch.full_like(indices, self._prompt_length)
        return SequenceBatch(
            input=tokens[:, :-1],
            output=tokens[:, 1:],
            loss_mask=target_mask(prompt_lengths, lengths),
            lengths=lengths,
            prompt_lengths=prompt_lengths,
            indices=indices,
        )

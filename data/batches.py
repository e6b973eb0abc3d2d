"""What a batch is: the one thing that data and models both know."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from data.length_parts import like_lengths, part_cost

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
SPECIAL_NAMES = {PAD_ID: "<pad>", BOS_ID: "<s>", EOS_ID: "</s>", UNK_ID: "<unk>"}
# Which lengths say how many columns of a padded field are in use.
LENGTHS_OF = {
    "source": "source_lengths",
    "target_input": "target_lengths",
    "target_output": "target_lengths",
    "input": "lengths",
    "output": "lengths",
    "loss_mask": "lengths",
}


@dataclass(frozen=True, kw_only=True)
class Batch(ABC):
    """Rows that are worked on together; their tensors lie on one device.

    Attributes:
        indices: the position of each row in its split, `(batch,)`.
    """

    indices: Tensor

    @property
    @abstractmethod
    def n_targets(self) -> int:
        """Targets that the loss counts."""

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All that it holds, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The same batch on another device; from page-locked memory nobody waits for the copy."""
        return self._each(
            lambda tensor: tensor.to(device, non_blocking=non_blocking or tensor.is_pinned())
        )

    def pin_memory(self) -> Self:
        """The same batch in page-locked memory, as the DataLoader asks for."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)(**{name: change(tensor) for name, tensor in self.tensors.items()})

    def take(self, rows: list[int]) -> Self:
        """Some of the rows, without the columns that none of them needs."""
        index = torch.tensor(rows)
        taken = {name: tensor[index] for name, tensor in self.tensors.items()}
        for name, lengths in LENGTHS_OF.items():
            if name in taken:
                taken[name] = taken[name][:, : int(taken[lengths].max())]
        return type(self)(**taken)

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.indices)


class TokenBatch(Batch):
    """Rows of tokens, some of which are to be predicted."""

    @property
    @abstractmethod
    def is_target(self) -> Tensor:
        """True where a token is a target, `(batch, length)`."""

    @property
    def n_targets(self) -> int:
        """Targets that the loss counts."""
        return len(self._places)

    def at_targets(self, values: Tensor) -> Tensor:
        """Of `values` `(batch, length, ...)` those at targets: `(targets, ...)`."""
        return values.flatten(0, 1)[self._places]

    @cached_property
    def _places(self) -> Tensor:
        return self.is_target.flatten().nonzero().flatten()

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed = super()._each(change)
        # Found where the batch was made: to find them on a GPU is to wait for it.
        vars(changed)["_places"] = change(self._places)
        return changed


@dataclass(frozen=True, kw_only=True)
class TranslationBatch(TokenBatch):
    """Sentence pairs, padded on the right with `PAD_ID`.

    The decoder reads `<s> y1 .. yn` and predicts `y1 .. yn </s>`: the shift by one is made here,
    once, and nowhere else.

    Attributes:
        source: token ids ending in `</s>`, `(batch, source_length)`.
        target_input: `<s> y1 .. yn`, `(batch, target_length)`.
        target_output: `y1 .. yn </s>`, `(batch, target_length)`.
        source_lengths: real tokens in each source row, `(batch,)`.
        target_lengths: real tokens in each target row, `(batch,)`.
    """

    source: Tensor
    target_input: Tensor
    target_output: Tensor
    source_lengths: Tensor
    target_lengths: Tensor

    @property
    def is_target(self) -> Tensor:
        """True where a token is a target, `(batch, target_length)`."""
        return self.target_output != PAD_ID

    @property
    def by_length(self) -> tuple[Self, ...]:
        """The same rows as one batch or several of like lengths, whichever takes less time."""
        return self._parts or (self,)

    @cached_property
    def _parts(self) -> tuple[Self, ...]:
        longest = torch.maximum(self.source_lengths, self.target_lengths).tolist()
        parts = like_lengths(longest, part_cost=part_cost())
        return tuple(map(self.take, parts)) if len(parts) > 1 else ()

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed = super()._each(change)
        vars(changed)["_parts"] = tuple(part._each(change) for part in self._parts)
        return changed


def pad_rows(rows: list[list[int]]) -> Tensor:
    """Stack rows of different lengths, padded on the right: `(rows, longest)`."""
    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row, dtype=torch.long) for row in rows],
        batch_first=True,
        padding_value=PAD_ID,
    )


def translation_batch(
    pairs: list[tuple[list[int], list[int]]], indices: list[int]
) -> TranslationBatch:
    """Build a batch from token ids without special tokens.

    Args:
        pairs: `(source ids, target ids)` for each row.
        indices: the position of each pair in its split.
    """
    sources = [[*source, EOS_ID] for source, _ in pairs]
    return TranslationBatch(
        source=pad_rows(sources),
        target_input=pad_rows([[BOS_ID, *target] for _, target in pairs]),
        target_output=pad_rows([[*target, EOS_ID] for _, target in pairs]),
        source_lengths=torch.tensor([len(row) for row in sources]),
        target_lengths=torch.tensor([len(target) + 1 for _, target in pairs]),
        indices=torch.tensor(indices),
    )


SEPARATOR_ID = 4


@dataclass(frozen=True, kw_only=True)
class SequenceBatch(TokenBatch):
    """Token sequences for a decoder-only model, padded on the right with `PAD_ID`.

    The model reads `w0 .. wn-1` and predicts `w1 .. wn`. A prompted row is
    `<s> source <sep> target </s>`, of which only `target </s>` counts; the shift by one is made in
    `sequence_block`, and for running text in `data.windows`.

    Attributes:
        input: token ids, `(batch, length)`.
        output: the token after each of them, `(batch, length)`.
        loss_mask: True where the output is a target, `(batch, length)`.
        lengths: real tokens in each input row, `(batch,)`.
        prompt_lengths: input tokens up to the first target, at least 1, `(batch,)`.
    """

    input: Tensor
    output: Tensor
    loss_mask: Tensor
    lengths: Tensor
    prompt_lengths: Tensor

    @property
    def is_target(self) -> Tensor:
        """See `loss_mask`."""
        return self.loss_mask


def target_mask(prompt_lengths: Tensor, lengths: Tensor) -> Tensor:
    """True at the outputs that count: `(batch, longest)`, given two times `(batch,)`."""
    positions = torch.arange(int(lengths.max()), device=lengths.device)
    return (positions >= prompt_lengths[:, None] - 1) & (positions < lengths[:, None])


def sequence_block(source: Tensor, target: Tensor) -> SequenceBatch:
    """Prompted rows from token ids without special tokens, all of one length.

    Args:
        source: `(rows, source_length)`.
        target: `(rows, target_length)`.
    """
    first, separator, last = (
        source.new_full((len(source), 1), token) for token in (BOS_ID, SEPARATOR_ID, EOS_ID)
    )
    rows = torch.cat([first, source, separator, target, last], dim=1)
    indices = torch.arange(len(source))
    lengths = torch.full_like(indices, rows.shape[1] - 1)
    prompt_lengths = torch.full_like(indices, source.shape[1] + 2)
    return SequenceBatch(
        input=rows[:, :-1],
        output=rows[:, 1:],
        loss_mask=target_mask(prompt_lengths, lengths),
        lengths=lengths,
        prompt_lengths=prompt_lengths,
        indices=indices,
    )


def translation_block(source: Tensor, target: Tensor) -> TranslationBatch:
    """Pairs from token ids without special tokens, all of one length; see `sequence_block`."""
    first, last = (source.new_full((len(source), 1), token) for token in (BOS_ID, EOS_ID))
    indices = torch.arange(len(source))
    return TranslationBatch(
        source=torch.cat([source, last], dim=1),
        target_input=torch.cat([first, target], dim=1),
        target_output=torch.cat([target, last], dim=1),
        source_lengths=torch.full_like(indices, source.shape[1] + 1),
        target_lengths=torch.full_like(indices, target.shape[1] + 1),
        indices=indices,
    )


@dataclass(frozen=True, kw_only=True)
class ForecastingBatch(Batch):
    """Windows of a series: what is known, and what is to be forecast.

    Attributes:
        past: scaled values, `(batch, lookback, channels)`.
        future: scaled values, `(batch, horizon, channels)`.
        past_time: time features of the past rows, `(batch, lookback, features)`.
        future_time: time features of the rows to forecast, `(batch, horizon, features)`.
    """

    past: Tensor
    future: Tensor
    past_time: Tensor
    future_time: Tensor

    @property
    def n_targets(self) -> int:
        """Values that the loss counts."""
        return self.future.numel()

"""What a batch is: the one thing that data and models both know."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3


@dataclass(frozen=True, kw_only=True)
class TranslationBatch:
    """Sentence pairs, padded on the right with `PAD_ID`.

    The decoder reads `<s> y1 .. yn` and predicts `y1 .. yn </s>`: the shift by one is made here,
    once, and nowhere else.

    Attributes:
        source: token ids ending in `</s>`, `(batch, source_length)`.
        target_input: `<s> y1 .. yn`, `(batch, target_length)`.
        target_output: `y1 .. yn </s>`, `(batch, target_length)`.
        source_lengths: real tokens in each source row, `(batch,)`.
        target_lengths: real tokens in each target row, `(batch,)`.
        indices: the position of each pair in its split, `(batch,)`.
    """

    source: Tensor
    target_input: Tensor
    target_output: Tensor
    source_lengths: Tensor
    target_lengths: Tensor
    indices: Tensor

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "TranslationBatch":
        """The same batch on another device."""
        moved = {
            f.name: getattr(self, f.name).to(device, non_blocking=non_blocking)
            for f in fields(self)
        }
        return TranslationBatch(**moved)

    def pin_memory(self) -> "TranslationBatch":
        """The same batch in page-locked memory, as the DataLoader asks for."""
        return TranslationBatch(
            **{f.name: getattr(self, f.name).pin_memory() for f in fields(self)}
        )

    def __len__(self) -> int:
        """Number of sentence pairs."""
        return len(self.indices)


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

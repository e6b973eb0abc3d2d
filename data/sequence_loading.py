"""Sequence tasks: examples in, `TranslationBatch`es or `SequenceBatch`es out."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from pytorch_lightning import LightningDataModule
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.data import DataLoader, Dataset

from data.batches import (
    LENGTHS_OF,
    PAD_ID,
    SEPARATOR_ID,
    SPECIAL_NAMES,
    TokenBatch,
    sequence_block,
    translation_block,
)
from data.row_batching import RowBatches, process_share
from data.sequence_examples import Block, Tokens, draw_splits
from data.sequences import (
    SIZES,
    SequenceData,
    SequenceForm,
    SequenceTask,
    fingerprint,
    test_lengths,
    validate,
)

__all__ = ["SequenceData", "SequenceDataModule", "SequenceForm", "fingerprint", "validate"]

FIRST_SYMBOL_ID = SEPARATOR_ID + 1
EVALUATION_TOKENS = 16_384  # tokens in an evaluation batch: without gradients there is room
MAKE_BLOCK: dict[SequenceForm, Callable[[Tensor, Tensor], TokenBatch]] = {
    SequenceForm.encoder_decoder: translation_block,
    SequenceForm.decoder_only: sequence_block,
}
NAMES = {**SPECIAL_NAMES, SEPARATOR_ID: "<sep>"}


@lru_cache(maxsize=4)
def load_splits(data: SequenceData, form: SequenceForm) -> dict[str, TokenBatch]:
    """Every split as one batch; shared by all runs of a process that use the same data."""
    return {name: _join(blocks, form) for name, blocks in draw_splits(data).items()}


def _join(blocks: list[Block], form: SequenceForm) -> TokenBatch:
    # A length with few sources may have none for validation.
    parts = [MAKE_BLOCK[form](*map(_token_ids, block)) for block in blocks if len(block[0])]
    joined: dict[str, Tensor] = {}
    for name in parts[0].tensors:
        tensors = [getattr(part, name) for part in parts]
        if name in LENGTHS_OF:
            width = max(tensor.shape[1] for tensor in tensors)
            tensors = [pad(x, (0, width - x.shape[1]), value=PAD_ID) for x in tensors]
        joined[name] = torch.cat(tensors)
    joined["indices"] = torch.arange(len(joined["indices"]))
    return type(parts[0])(**joined)


def _token_ids(symbols: Tokens) -> Tensor:
    return torch.from_numpy(symbols.astype("int64") + FIRST_SYMBOL_ID)


class Rows(Dataset[TokenBatch]):
    """A split as a dataset whose items are batches: the sampler asks for many rows at once."""

    def __init__(self, split: TokenBatch) -> None:
        self._split = split

    def __getitem__(self, rows: list[int]) -> TokenBatch:
        """See `Batch.take`."""
        return self._split.take(rows)


class SequenceDataModule(LightningDataModule):
    """Batches of a sequence task for any Trainer.

    Use a Trainer with `use_distributed_sampler=False`: the batches are shared out over the ranks
    here, each example once. The order of the training batches depends on the seed and the epoch
    only.

    Args:
        data: what to draw.
        seed: picks the order of the training examples, not the examples.
        form: `TranslationBatch`es for an encoder-decoder, `SequenceBatch`es for a decoder.

    Attributes:
        data: as given.
        form: as given.
    """

    def __init__(self, data: SequenceData, *, seed: int, form: SequenceForm) -> None:
        super().__init__()
        self.data = data
        self.form = form
        self._seed = seed

    @property
    def vocabulary_size(self) -> int:
        """Tokens: the special ones, the separator and the symbols."""
        return FIRST_SYMBOL_ID + SIZES[self.data.task].symbols(self.data.alphabet)

    @property
    def eval_lengths(self) -> tuple[int, ...]:
        """Items of each test set, in the order of the setting."""
        return test_lengths(self.data)

    def targets(self, length: int) -> list[list[int]]:
        """The right answers of a test set, token ids in the order of its `indices`."""
        blocks = draw_splits(self.data)[f"test_{length}"]
        return [row for _, target in blocks for row in _token_ids(target).tolist()]

    def names(self, ids: list[int]) -> list[str]:
        """How each token is written: symbols as numbers, the sign of `addition` as `+`."""
        plus = self.data.alphabet if self.data.task is SequenceTask.addition else None
        symbols = (token - FIRST_SYMBOL_ID for token in ids)
        return [
            NAMES.get(token) or ("+" if symbol == plus else str(symbol))
            for token, symbol in zip(ids, symbols, strict=True)
        ]

    @property
    def report(self) -> dict[str, Any]:
        """What was drawn, as plain values: examples of each split, by source tokens."""
        counts = {
            name: {str(source.shape[1]): len(source) for source, _ in blocks}
            for name, blocks in draw_splits(self.data).items()
        }
        return {
            "fingerprint": fingerprint(self.data),
            "form": self.form.name,
            "vocabulary_size": self.vocabulary_size,
            "examples_by_source_tokens": counts,
            "training_batches": len(self._batches("train")),
        }

    def train_dataloader(self) -> DataLoader:
        """Every training example once an epoch, lengths mixed, in random order."""
        return self._loader("train")

    def val_dataloader(self) -> DataLoader:
        """Held-out examples of the trained lengths, shortest first."""
        return self._loader("validation")

    def test_dataloader(self, length: int | None = None) -> DataLoader:
        """The test set of one length (the first of `eval_lengths` unless given), in items.

        Raises:
            ValueError: There is no test set of that length.
        """
        chosen = self.eval_lengths[0] if length is None else length
        if chosen not in self.eval_lengths:
            known = ", ".join(map(str, self.eval_lengths))
            raise ValueError(f"no test set of length {chosen}; there are {known}")
        return self._loader(f"test_{chosen}")

    def predict_dataloader(self, length: int | None = None) -> DataLoader:
        """The same as `test_dataloader`."""
        return self.test_dataloader(length)

    def state_dict(self) -> dict[str, str]:
        """What a checkpoint remembers of the data."""
        return {"fingerprint": fingerprint(self.data)}

    def load_state_dict(self, state_dict: dict[str, str]) -> None:
        """Refuse to go on with other examples.

        Raises:
            ValueError: The checkpoint was trained on other examples.
        """
        here = fingerprint(self.data)
        if state_dict["fingerprint"] != here:
            raise ValueError(
                f"the checkpoint's examples are {state_dict['fingerprint']}, these are {here}:"
                " the task, its lengths or its symbols differ"
            )

    def _batches(self, name: str) -> RowBatches:
        split = self._split(name)
        rank, world_size = process_share()
        rows = max(1, EVALUATION_TOKENS // self._longest(split))
        return RowBatches(
            len(split),
            batch_size=self.data.batch_size if name == "train" else rows,
            seed=self._seed,
            shuffle=name == "train",
            rank=rank,
            world_size=world_size,
        )

    def _split(self, name: str) -> TokenBatch:
        return load_splits(self.data, self.form)[name]

    def _longest(self, split: TokenBatch) -> int:
        return max(int(getattr(split, name).max()) for name in vars(split) if "lengths" in name)

    def _loader(self, name: str) -> DataLoader:
        return DataLoader(
            Rows(self._split(name)),
            sampler=self._batches(name),
            batch_size=None,
            # Its own generator: making an iterator must not move the one that draws dropout.
            generator=torch.Generator(),
            pin_memory=torch.cuda.is_available(),
        )

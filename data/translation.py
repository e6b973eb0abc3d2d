"""Translation data: sentence pairs in, `TranslationBatch`es out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from pytorch_lightning import LightningDataModule
from torch.utils.data import DataLoader, Dataset

from data.batches import TranslationBatch, translation_batch
from data.batching import TokenBudgetBatches
from data.corpus import (
    TranslationData,
    TranslationSource,
    fingerprint,
    list_test_splits,
    source_word_bounds,
    validate,
)
from data.length_parts import padding_share
from data.row_batching import RowBatches, process_share
from data.tokenization import TRAINING, Tokenizer
from data.tokenized_pairs import Corpus, Ids, Split, load_corpus

__all__ = [
    "TranslationData",
    "TranslationDataModule",
    "TranslationSource",
    "fingerprint",
    "validate",
]

EVALUATION_TOKENS = 4096  # padded tokens in an evaluation batch: without gradients there is room


class TranslationDataModule(LightningDataModule):
    """Batches of sentence pairs for any Trainer.

    Use a Trainer with `use_distributed_sampler=False`: the batches are shared out over the ranks
    here, each pair once. The order of the training batches depends on the seed and the epoch only.

    Args:
        data: what to read.
        seed: picks the order of the training pairs, not the pairs and not the vocabulary.
        cache_dir: where vocabularies are kept, one file for each corpus and size.

    Attributes:
        data: as given.
    """

    def __init__(self, data: TranslationData, *, seed: int, cache_dir: str | Path) -> None:
        super().__init__()
        self.data = data
        self._seed = seed
        self._cache_dir = Path(cache_dir)
        self._corpus: Corpus | None = None
        self._fingerprint = ""

    def prepare_data(self) -> None:
        """Train the vocabulary, unless an earlier run did.

        Raises:
            ValueError: As for `data.corpus.load_pairs` and `data.tokenization.train_tokenizer`.
        """
        self.setup()

    def setup(self, stage: str | None = None) -> None:
        """Read and tokenise all splits, once."""
        if self._corpus is None:
            self._fingerprint = fingerprint(self.data)
            self._corpus = load_corpus(self.data, self._fingerprint, self._model_path())

    def _model_path(self) -> Path:
        data = self.data
        languages = (data.source_language, data.target_language)
        settings = (
            data.vocabulary_size,
            data.n_train,
            languages,
            sentencepiece.__version__,
            TRAINING,
        )
        key = json.dumps([self._fingerprint, settings], sort_keys=True)
        return self._cache_dir / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.model"

    def _ready(self) -> Corpus:
        self.setup()
        assert self._corpus is not None
        return self._corpus

    @property
    def tokenizer(self) -> Tokenizer:
        """The joint vocabulary."""
        return self._ready().tokenizer

    @property
    def vocabulary_size(self) -> int:
        """Tokens in the vocabulary."""
        return self.tokenizer.vocabulary_size

    @property
    def test_splits(self) -> list[str]:
        """Names of the test splits, the main one first."""
        return list_test_splits(self.data)

    @property
    def report(self) -> dict[str, Any]:
        """What was read, as plain values: per split, counts, drops and unknown rates."""
        corpus = self._ready()
        training = self._training_batches()
        source, target = padding_share(corpus.splits["train"].lengths(), training)
        return {
            "fingerprint": self._fingerprint,
            "tokenizer_hash": corpus.tokenizer.hash,
            "vocabulary_size": corpus.tokenizer.vocabulary_size,
            "splits": {name: self._split_report(name) for name in corpus.splits},
            "training_batches": len(training),
            "padding_share": {"source": source, "target": target},
        }

    def _split_report(self, name: str) -> dict[str, Any]:
        found = {str(bound): len(rows) for bound, rows in self.source_buckets(name).items()}
        return {**self._split(name).report(), **({"by_source_words": found} if found else {})}

    def longest_sentence(self, split: str, rows: Sequence[int] | None = None) -> int:
        """Tokens of the longest sentence on either side, its end or start included.

        Args:
            split: of which split.
            rows: only these pairs.
        """
        return self._split(split).longest(rows)

    def source_buckets(self, split: str) -> dict[int, list[int]]:
        """The pairs of a test split by length of the source, by the most words of each bucket.

        No buckets where none are asked for, and none of the training and validation pairs.
        """
        bounds = source_word_bounds(self.data)
        if not bounds or split not in self.test_splits:
            return {}
        return self._split(split).by_source_words(bounds)

    def references(self, split: str) -> list[str]:
        """The target sentences of a split, as they stand in the file, in file order."""
        return [target for _, target in self._split(split).pairs]

    def sources(self, split: str) -> list[str]:
        """The source sentences of a split, in file order."""
        return [source for source, _ in self._split(split).pairs]

    def train_dataloader(self) -> DataLoader:
        """Every training pair once an epoch, in random order.

        A batch mixes lengths: batches of one length teach less. To compute one with little padding,
        see `TranslationBatch.by_length`.
        """
        return _loader(self._split("train").ids, self._training_batches())

    def _training_batches(self) -> RowBatches:
        lengths = self._split("train").lengths()
        mean = sum(map(max, lengths)) / len(lengths)
        rank, world_size = process_share()
        return RowBatches(
            len(lengths),
            batch_size=max(1, round(self.data.tokens_per_batch / mean)),
            seed=self._seed,
            rank=rank,
            world_size=world_size,
        )

    def val_dataloader(self) -> DataLoader:
        """The validation pairs, longest first."""
        return self._evaluation_loader("validation")

    def test_dataloader(self, split: str = "", rows: Sequence[int] | None = None) -> DataLoader:
        """The pairs of a test split (the first unless named), longest source first.

        `TranslationBatch.indices` gives back the order of the file, or where only some `rows` are
        asked for, their order.
        """
        return self._evaluation_loader(split or self.test_splits[0], rows)

    def predict_dataloader(self, split: str = "", rows: Sequence[int] | None = None) -> DataLoader:
        """The same as `test_dataloader`."""
        return self.test_dataloader(split, rows)

    def state_dict(self) -> dict[str, str]:
        """What a checkpoint remembers of the data."""
        return {"tokenizer_hash": self.tokenizer.hash}

    def load_state_dict(self, state_dict: dict[str, str]) -> None:
        """Refuse to go on with another vocabulary.

        Raises:
            ValueError: The checkpoint was trained with other tokens.
        """
        if state_dict["tokenizer_hash"] != self.tokenizer.hash:
            raise ValueError(
                f"the checkpoint's vocabulary is {state_dict['tokenizer_hash']}, this one is"
                f" {self.tokenizer.hash}: token ids would mean other words"
            )

    def _split(self, name: str) -> Split:
        splits = self._ready().splits
        if name not in splits:
            raise ValueError(f"no split {name!r}; there are {', '.join(splits)}")
        return splits[name]

    def _evaluation_loader(self, name: str, rows: Sequence[int] | None = None) -> DataLoader:
        split = self._split(name)
        lengths, ids = split.lengths(), split.ids
        if rows is not None:
            lengths, ids = [lengths[row] for row in rows], [ids[row] for row in rows]
        rank, world_size = process_share()
        batches = TokenBudgetBatches(
            lengths, tokens_per_batch=EVALUATION_TOKENS, rank=rank, world_size=world_size
        )
        return _loader(ids, batches)


class Pairs(Dataset[TranslationBatch]):
    """Pairs as a dataset whose items are batches: the sampler asks for many rows at once.

    Attributes:
        ids: the tokens of each pair.
    """

    def __init__(self, ids: list[Ids]) -> None:
        self.ids = ids

    def __getitem__(self, rows: list[int]) -> TranslationBatch:
        """These pairs, in this order."""
        return translation_batch([self.ids[row] for row in rows], rows)


def _loader(ids: list[Ids], batches: RowBatches | TokenBudgetBatches) -> DataLoader:
    return DataLoader(
        Pairs(ids),
        sampler=batches,
        batch_size=None,
        # Its own generator: making an iterator must not move the one that draws dropout.
        generator=torch.Generator(),
        pin_memory=torch.cuda.is_available(),
    )

"""Translation data: sentence pairs in, `TranslationBatch`es out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from pytorch_lightning import LightningDataModule
from torch.utils.data import DataLoader

from data.batches import TranslationBatch, translation_batch
from data.batching import TokenBudgetSampler, padding_share
from data.corpus import (
    TranslationData,
    TranslationSource,
    fingerprint,
    list_test_splits,
    load_pairs,
    validate,
)
from data.parallel import Pair, without_blanks
from data.row_batching import process_share
from data.tokenization import TRAINING, Tokenizer, train_tokenizer, unknown_share

__all__ = [
    "TranslationData",
    "TranslationDataModule",
    "TranslationSource",
    "fingerprint",
    "validate",
]

EVALUATION_TOKENS = 4096  # padded tokens in an evaluation batch: without gradients there is room
Ids = tuple[list[int], list[int]]  # source and target, without special tokens


@dataclass(frozen=True)
class Split:
    """One split, ready to batch.

    Attributes:
        pairs: text, blank pairs left out.
        ids: the tokens of each pair.
        dropped: pairs left out, by reason.
    """

    pairs: list[Pair]
    ids: list[Ids]
    dropped: dict[str, int]

    def lengths(self) -> list[tuple[int, int]]:
        """Source and target tokens of each pair, the end mark included."""
        return [(len(source) + 1, len(target) + 1) for source, target in self.ids]

    def report(self) -> dict[str, Any]:
        """Counts and unknown rates."""
        return {
            "pairs": len(self.ids),
            "dropped": self.dropped,
            "unknown_rate": {
                "source": unknown_share(source for source, _ in self.ids),
                "target": unknown_share(target for _, target in self.ids),
            },
        }


@dataclass(frozen=True)
class Corpus:
    """Everything read and tokenised; shared by all runs of a process that use the same data."""

    tokenizer: Tokenizer
    splits: dict[str, Split]


@lru_cache(maxsize=2)
def load_corpus(data: TranslationData, data_fingerprint: str, model_path: Path) -> Corpus:
    """Read, train or load the vocabulary, tokenise.

    Args:
        data: what to read.
        data_fingerprint: `fingerprint(data)`; part of the memory's key.
        model_path: the vocabulary's file, written when it isn't there.
    """
    loaded = load_pairs(data)
    pairs = {name: without_blanks(split) for name, split in loaded.items()}
    for name, split in pairs.items():
        if not split:
            raise ValueError(f"{name}: no pair has text on both sides")
    tokenizer = _tokenizer(pairs["train"], vocabulary_size=data.vocabulary_size, path=model_path)
    splits = {}
    for name, split in pairs.items():
        limit = data.max_length if name == "train" else None
        splits[name] = _tokenise(
            split, tokenizer, limit=limit, blank=len(loaded[name]) - len(split)
        )
    if not splits["train"].ids:
        raise ValueError(f"data.max_length={data.max_length}: every training pair is longer")
    return Corpus(tokenizer, splits)


def _tokenizer(pairs: Iterable[Pair], *, vocabulary_size: int, path: Path) -> Tokenizer:
    if path.exists():
        return Tokenizer.load(path)
    lines = [sentence for pair in pairs for sentence in pair]
    return train_tokenizer(lines, vocabulary_size=vocabulary_size, path=path)


def _tokenise(pairs: list[Pair], tokenizer: Tokenizer, *, limit: int | None, blank: int) -> Split:
    sides = (tokenizer.encode_lines([pair[side] for pair in pairs]) for side in (0, 1))
    ids = list(zip(*sides, strict=True))
    kept = [i for i, pair in enumerate(ids) if limit is None or max(map(len, pair)) < limit]
    dropped = {"blank": blank, "too_long": len(ids) - len(kept)}
    return Split([pairs[i] for i in kept], [ids[i] for i in kept], dropped)


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
        lengths = corpus.splits["train"].lengths()
        sampler = self._sampler("train")
        return {
            "fingerprint": self._fingerprint,
            "tokenizer_hash": corpus.tokenizer.hash,
            "vocabulary_size": corpus.tokenizer.vocabulary_size,
            "splits": {name: split.report() for name, split in corpus.splits.items()},
            "training_batches": len(sampler),
            "padding_share": {
                "source": padding_share(sampler, [source for source, _ in lengths]),
                "target": padding_share(sampler, [target for _, target in lengths]),
            },
        }

    @property
    def longest_sentence(self) -> int:
        """Tokens of the longest sentence on either side of any split, its end or start included."""
        splits = self._ready().splits.values()
        return max(length for split in splits for pair in split.lengths() for length in pair)

    def references(self, split: str) -> list[str]:
        """The target sentences of a split, as they stand in the file, in file order."""
        return [target for _, target in self._split(split).pairs]

    def sources(self, split: str) -> list[str]:
        """The source sentences of a split, in file order."""
        return [source for source, _ in self._split(split).pairs]

    def train_dataloader(self) -> DataLoader:
        """Every training pair once an epoch, in batches of like length and random order."""
        return self._loader("train")

    def val_dataloader(self) -> DataLoader:
        """The validation pairs, longest first."""
        return self._loader("validation")

    def test_dataloader(self, split: str = "") -> DataLoader:
        """The pairs of a test split (the first unless named), longest source first.

        `TranslationBatch.indices` gives back the order of the file.
        """
        return self._loader(split or self.test_splits[0])

    def predict_dataloader(self, split: str = "") -> DataLoader:
        """The same as `test_dataloader`."""
        return self.test_dataloader(split)

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

    def _sampler(self, name: str) -> TokenBudgetSampler:
        lengths = self._split(name).lengths()
        train = name == "train"
        rank, world_size = process_share()
        return TokenBudgetSampler(
            [(target, source) for source, target in lengths] if train else lengths,
            tokens_per_batch=self.data.tokens_per_batch if train else EVALUATION_TOKENS,
            seed=self._seed,
            shuffle=train,
            rank=rank,
            world_size=world_size,
        )

    def _loader(self, name: str) -> DataLoader:
        return DataLoader(
            list(enumerate(self._split(name).ids)),  # type: ignore[arg-type]
            batch_sampler=self._sampler(name),
            collate_fn=_collate,
            # Its own generator: making an iterator must not move the one that draws dropout.
            generator=torch.Generator(),
            pin_memory=torch.cuda.is_available(),
        )


def _collate(rows: list[tuple[int, Ids]]) -> TranslationBatch:
    return translation_batch([pair for _, pair in rows], [index for index, _ in rows])

"""Language-modelling data: text in, `SequenceBatch`es of windows out."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from pytorch_lightning import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from data.batches import BOS_ID, UNK_ID, SequenceBatch
from data.row_batching import RowBatches, process_share
from data.text import (
    SPLITS,
    TextData,
    continuation_lengths,
    evaluation_mode,
    fingerprint,
    load_text,
    test_lengths,
    validate,
)
from data.text_vocabulary import Characters, Subwords
from data.tokenization import TRAINING, Tokenizer, train_tokenizer
from data.windows import PromptedRows, Windows

__all__ = ["TextData", "TextDataModule", "fingerprint", "validate"]

EVALUATION_TOKENS = 16_384  # tokens in an evaluation batch: without gradients there is room


@dataclass(frozen=True)
class Corpus:
    """Everything read and tokenised; shared by all runs of a process that use the same data.

    Attributes:
        vocabulary: of the training split.
        streams: by split, `<s>` and the token ids, `(1 + tokens,)`.
        characters: by split, characters of the text.
    """

    vocabulary: Characters | Subwords
    streams: dict[str, Tensor]
    characters: dict[str, int]

    def report(self) -> dict[str, dict[str, Any]]:
        """Counts and unknown rates, by split."""
        return {
            name: {
                "tokens": len(stream) - 1,
                "characters": self.characters[name],
                "unknown_rate": (stream == UNK_ID).sum().item() / (len(stream) - 1),
            }
            for name, stream in self.streams.items()
        }


@lru_cache(maxsize=2)
def load_corpus(data: TextData, data_fingerprint: str, model_path: Path) -> Corpus:
    """Read, train or load the vocabulary, tokenise.

    Args:
        data: what to read.
        data_fingerprint: `fingerprint(data)`; part of the memory's key.
        model_path: the subword vocabulary's file, written when it isn't there.

    Raises:
        ValueError: As for `data.text.load_text` and `data.tokenization.train_tokenizer`, or a
            split has fewer tokens than a window.
    """
    texts = load_text(data)
    vocabulary: Characters | Subwords = (
        _subwords(texts["train"], vocabulary_size=data.vocabulary_size, path=model_path)
        if data.vocabulary_size
        else Characters(texts["train"])
    )
    streams = {
        name: torch.tensor([BOS_ID, *vocabulary.encode(text)]) for name, text in texts.items()
    }
    longest = max(data.context_length, *test_lengths(data))
    for name, stream in streams.items():
        if len(stream) - 1 < longest:
            raise ValueError(
                f"data.path={data.path!r}: the {name} split has {len(stream) - 1} tokens, fewer"
                f" than the longest window, {longest}; use more text or shorter windows"
            )
    return Corpus(vocabulary, streams, {name: len(text) for name, text in texts.items()})


def _subwords(text: str, *, vocabulary_size: int, path: Path) -> Subwords:
    if path.exists():
        return Subwords(Tokenizer.load(path))
    return Subwords(train_tokenizer(text.split("\n"), vocabulary_size=vocabulary_size, path=path))


class TextDataModule(LightningDataModule):
    """Windows of running text for any Trainer.

    Use a Trainer with `use_distributed_sampler=False`: the batches are shared out over the ranks
    here, each window once. The order of the training windows depends on the seed and the epoch
    only. Every token of an evaluation split is scored exactly once, at each window length.

    Args:
        data: what to read.
        seed: picks the order of the training windows, not the windows and not the vocabulary.
        cache_dir: where subword vocabularies are kept, one file for each text and size.

    Attributes:
        data: as given.
    """

    def __init__(self, data: TextData, *, seed: int, cache_dir: str | Path) -> None:
        super().__init__()
        self.data = data
        self._seed = seed
        self._cache_dir = Path(cache_dir)
        self._corpus: Corpus | None = None
        self._fingerprint = ""

    def prepare_data(self) -> None:
        """Train the vocabulary, unless an earlier run did.

        Raises:
            ValueError: As for `load_corpus`.
        """
        self.setup()

    def setup(self, stage: str | None = None) -> None:
        """Read and tokenise all splits, once."""
        if self._corpus is None:
            self._fingerprint = fingerprint(self.data)
            self._corpus = load_corpus(self.data, self._fingerprint, self._model_path())

    @property
    def tokenizer(self) -> Characters | Subwords:
        """The vocabulary."""
        return self._ready().vocabulary

    @property
    def vocabulary_size(self) -> int:
        """Tokens in the vocabulary."""
        return self.tokenizer.vocabulary_size

    @property
    def eval_lengths(self) -> tuple[int, ...]:
        """Tokens of the evaluation windows, in the order of the setting."""
        return test_lengths(self.data)

    @property
    def continuation_lengths(self) -> tuple[int, ...]:
        """Tokens to write behind a prompt, in the order of the setting; none without prompts."""
        return continuation_lengths(self.data) if self.data.n_prompts else ()

    @property
    def report(self) -> dict[str, Any]:
        """What was read, as plain values: per split, counts and unknown rates; how it is scored."""
        corpus = self._ready()
        return {
            "fingerprint": self._fingerprint,
            "tokenizer_hash": corpus.vocabulary.hash,
            "vocabulary_size": corpus.vocabulary.vocabulary_size,
            "evaluation_mode": evaluation_mode(self.data),
            "splits": corpus.report(),
            "training_batches": len(self.train_dataloader()),
        }

    def train_dataloader(self) -> DataLoader:
        """Windows that do not overlap, each once an epoch, in random order."""
        length = self.data.context_length
        rows = self.data.tokens_per_batch // length
        return self._loader("train", length=length, stride=length, batch_size=rows)

    def val_dataloader(self) -> DataLoader:
        """The validation text in windows of the trained length, in its order."""
        return self._evaluation_loader("validation", self.data.context_length)

    def test_dataloader(self, length: int | None = None) -> DataLoader:
        """The test text in windows of one length (the first of `eval_lengths` unless given).

        Raises:
            ValueError: The length is none of `eval_lengths`.
        """
        chosen = self.eval_lengths[0] if length is None else length
        if chosen not in self.eval_lengths:
            known = ", ".join(map(str, self.eval_lengths))
            raise ValueError(f"no test windows of {chosen} tokens; there are {known}")
        return self._evaluation_loader("test", chosen)

    def prompted(self, length: int) -> Tensor:
        """Prompts of the test text and the `length` tokens behind each, `(prompts, tokens)`.

        The places are evenly spread over the text and do not overlap.

        Raises:
            ValueError: The test text is too short for that.
        """
        data, stream = self.data, self._ready().streams["test"]
        width = data.prompt_length + length
        if data.n_prompts * width > len(stream):
            raise ValueError(
                f"data.n_prompts={data.n_prompts}: the test split has {len(stream) - 1} tokens, too"
                f" few for so many prompts of {data.prompt_length} and continuations of {length};"
                f" at most {len(stream) // width}, or more text"
            )
        last, n = len(stream) - width, data.n_prompts
        starts = torch.arange(n) * last // max(1, n - 1)
        return stream[starts[:, None] + torch.arange(width)]

    def prompt_dataloader(self, rows: Tensor) -> DataLoader:
        """Rows such as `prompted` gives, in their order, each a prompt and targets."""
        windows = PromptedRows(rows, prompt_length=self.data.prompt_length)
        batch_size = max(1, EVALUATION_TOKENS // rows.shape[1])
        return self._batches(windows, n_rows=len(rows), batch_size=batch_size)

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
                f" {self.tokenizer.hash}: token ids would mean other characters or words"
            )

    def _ready(self) -> Corpus:
        self.setup()
        assert self._corpus is not None
        return self._corpus

    def _model_path(self) -> Path:
        settings = (self.data.vocabulary_size, SPLITS, sentencepiece.__version__, TRAINING)
        key = json.dumps([self._fingerprint, settings], sort_keys=True)
        return self._cache_dir / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.model"

    def _evaluation_loader(self, split: str, length: int) -> DataLoader:
        stride = self.data.eval_stride or length
        rows = max(1, EVALUATION_TOKENS // length)
        return self._loader(split, length=length, stride=stride, batch_size=rows)

    def _loader(self, split: str, *, length: int, stride: int, batch_size: int) -> DataLoader:
        windows = Windows(self._ready().streams[split], length=length, stride=stride)
        return self._batches(
            windows, n_rows=len(windows), batch_size=batch_size, shuffle=split == "train"
        )

    def _batches(
        self, rows: Dataset[SequenceBatch], *, n_rows: int, batch_size: int, shuffle: bool = False
    ) -> DataLoader:
        rank, world_size = process_share()
        batches = RowBatches(
            n_rows,
            batch_size=batch_size,
            seed=self._seed,
            shuffle=shuffle,
            rank=rank,
            world_size=world_size,
        )
        return DataLoader(
            rows,
            sampler=batches,
            batch_size=None,
            # Its own generator: making an iterator must not move the one that draws dropout.
            generator=torch.Generator(),
            pin_memory=torch.cuda.is_available(),
        )

"""Subword tokens: one joint sentencepiece BPE vocabulary for both languages.

Sennrich et al. 2016, https://arxiv.org/abs/1508.07909; Kudo and Richardson 2018,
https://arxiv.org/abs/1808.06226.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sentencepiece

from data.batches import BOS_ID, EOS_ID, PAD_ID, UNK_ID

# Every character of the training text is kept, and none is rewritten: `decode(encode(text))` is the
# text itself, but for repeated spaces. Nothing is sampled and one thread counts, so the same lines
# give the same bytes.
TRAINING: dict[str, Any] = {
    "model_type": "bpe",
    "character_coverage": 1.0,
    "normalization_rule_name": "identity",
    "input_sentence_size": 0,
    "shuffle_input_sentence": False,
    "max_sentence_length": 1 << 20,  # bytes; longer lines would be left out, with their characters
    "num_threads": 1,
    "pad_id": PAD_ID,
    "bos_id": BOS_ID,
    "eos_id": EOS_ID,
    "unk_id": UNK_ID,
    "minloglevel": 2,
}


class Tokenizer:
    """A trained vocabulary.

    Args:
        model: the serialised sentencepiece model.
    """

    def __init__(self, model: bytes) -> None:
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.hash = hashlib.sha256(model).hexdigest()[:16]

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read a vocabulary that `train_tokenizer` wrote."""
        return cls(Path(path).read_bytes())

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens, the four special ones included."""
        return self._processor.get_piece_size()

    def encode(self, text: str) -> list[int]:
        """Token ids without special tokens; a character never seen becomes `UNK_ID`."""
        return self._processor.encode(text)

    def encode_lines(self, lines: list[str]) -> list[list[int]]:
        """`encode` for many lines at once."""
        return self._processor.encode(lines, num_threads=1)

    def pieces(self, text: str) -> list[str]:
        """What each token of `encode` stands for in the text, word starts marked with `▁`."""
        return self._processor.encode(text, out_type=str)

    def names(self, ids: list[int]) -> list[str]:
        """How the vocabulary writes each token, special ones as `<s>`."""
        return self._processor.id_to_piece(ids)

    def decode(self, ids: list[int]) -> str:
        """The text of token ids; special tokens vanish."""
        return self._processor.decode(ids)

    def unknown_rate(self, lines: Iterable[str]) -> float:
        """Share of tokens that are unknown, 0 for no lines."""
        return unknown_share(self.encode_lines(list(lines)))


def unknown_share(rows: Iterable[list[int]]) -> float:
    """Share of `UNK_ID` among the ids of all rows, 0 for no ids."""
    unknown = total = 0
    for row in rows:
        unknown += row.count(UNK_ID)
        total += len(row)
    return unknown / total if total else 0.0


def train_tokenizer(lines: Iterable[str], *, vocabulary_size: int, path: str | Path) -> Tokenizer:
    """Train a vocabulary and write it to `path` in one step, so that several processes may race.

    Args:
        lines: training text, in a fixed order.
        vocabulary_size: number of tokens, the four special ones included.
        path: where the model goes.

    Raises:
        ValueError: The corpus has too few different words for that many tokens, or too many
            different characters for so few; the bound is named.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=vocabulary_size,
            **TRAINING,
        )
    except RuntimeError as error:
        raise ValueError(_plain_words(str(error), vocabulary_size)) from error
    _write_at_once(Path(path), model.getvalue())
    return Tokenizer(model.getvalue())


def _plain_words(message: str, vocabulary_size: int) -> str:
    if largest := re.search(r"value <= (\d+)", message):
        return (
            f"vocabulary_size={vocabulary_size} is larger than the training text allows:"
            f" at most {largest[1]} (or add text)"
        )
    if smallest := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return (
            f"vocabulary_size={vocabulary_size} is smaller than the number of different characters:"
            f" at least {smallest[1]}"
        )
    return f"vocabulary_size={vocabulary_size}: sentencepiece cannot train on this text ({message})"


def _write_at_once(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.replace(temporary, path)

"""Which text a language model reads: the choice, its checks and its fingerprint.

Imports neither torch nor Lightning, so that a plan can check a hundred cells at once.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from data.lengths import evaluation_lengths
from data.parallel import file_digest, read_bytes

SPLITS = ("train", "validation", "test")
TENTHS = (8, 9)  # where, in tenths of a file's characters, validation and test begin
GRAMMAR_SEED = 0  # the text is the same in every run; a run's seed picks its order
GRAMMAR_SENTENCES = {"train": 10_000, "validation": 1_000, "test": 1_000}
GRAMMAR_WORDS = {"min_words": 4, "max_words": 16}
SMALLEST = {
    "vocabulary_size": 0,
    "context_length": 2,
    "eval_stride": 0,
    "n_prompts": 0,
    "prompt_length": 1,
}


@dataclass(frozen=True, kw_only=True)
class TextData:
    """Running text, its tokens and its windows.

    A file is split by position: the first eight tenths of its characters are for training, the
    next for validation, the last for the test.

    Attributes:
        path: a UTF-8 text file, plain or `.gz`; empty for English sentences written by
            `data.generators`, one a line.
        vocabulary_size: subword tokens, special ones included; 0 for one token a character.
        context_length: tokens of a training window.
        eval_lengths: tokens of the evaluation windows: multiples of `context_length` such as
            `1x 2x 4x 8x`, or numbers such as `64,128`.
        eval_stride: tokens that each evaluation window adds to the one before, and is scored on:
            a sliding window; 0 for the whole window, so that windows do not overlap.
        n_prompts: places of the test text, evenly spread, from which models go on writing; 0 for
            none.
        prompt_length: tokens of the text that they are given.
        continuation_lengths: tokens that they write, spelled as `eval_lengths`.
        tokens_per_batch: most rows x window of a training batch over all ranks; each rank gets at
            least one row even so.

    Raises:
        ValueError: A number out of range.
    """

    path: str = ""
    vocabulary_size: int = 0
    context_length: int = 64
    eval_lengths: str = "1x 2x 4x 8x"
    eval_stride: int = 0
    n_prompts: int = 32
    prompt_length: int = 16
    continuation_lengths: str = "1x 4x"
    tokens_per_batch: int = 2048

    def __post_init__(self) -> None:
        for name, smallest in {**SMALLEST, "tokens_per_batch": self.context_length}.items():
            value = getattr(self, name)
            if value < smallest:
                raise ValueError(f"data.{name}={value} is too small: at least {smallest}")
        if 0 < self.vocabulary_size < 5:
            raise ValueError(
                f"data.vocabulary_size={self.vocabulary_size} is too small: at least 5, or 0 for"
                " one token a character"
            )
        continuation_lengths(self)
        if self.eval_stride > min(self.context_length, *test_lengths(self)):
            raise ValueError(
                f"data.eval_stride={self.eval_stride} is longer than a window of"
                f" data.context_length={self.context_length} or"
                f" data.eval_lengths={self.eval_lengths!r}, so tokens between would go unscored"
            )


def test_lengths(data: TextData) -> tuple[int, ...]:
    """Tokens of the evaluation windows, in the order given.

    Raises:
        ValueError: As for `data.lengths.evaluation_lengths`.
    """
    return evaluation_lengths(
        data.eval_lengths, name="data.eval_lengths", trained=data.context_length
    )


def continuation_lengths(data: TextData) -> tuple[int, ...]:
    """Tokens that models write behind a prompt, in the order given.

    Raises:
        ValueError: As for `data.lengths.evaluation_lengths`.
    """
    return evaluation_lengths(
        data.continuation_lengths, name="data.continuation_lengths", trained=data.context_length
    )


def evaluation_mode(data: TextData) -> str:
    """How windows are cut for evaluation, as figures have to state it."""
    if not data.eval_stride:
        return "non-overlapping windows"
    return f"sliding windows, stride {data.eval_stride}"


def load_text(data: TextData) -> dict[str, str]:
    """The text of each split.

    A carriage return before a line feed belongs to the line end, any other one is a space; nothing
    else is changed.

    Raises:
        ValueError: No such file, not UTF-8, or too short for the longest window.
    """
    texts = _read_file(Path(data.path)) if data.path else _grammar_text()
    longest = max(data.context_length, *test_lengths(data))
    for name, text in texts.items():
        if len(text) < longest:
            raise ValueError(
                f"data.path={data.path!r}: the {name} split has {len(text)} characters, fewer than"
                f" the longest window, {longest} tokens; use more text or shorter windows"
            )
    return texts


def validate(data: TextData) -> None:
    """Read everything once and refuse what cannot be trained on.

    Raises:
        ValueError: As for `load_text`, in one line.
    """
    if data.path:
        load_text(data)


def fingerprint(data: TextData) -> str:
    """16 hex digits of the content of all splits, wherever the file lies and however packed.

    Raises:
        ValueError: No such file.
    """
    content: object
    if data.path:
        content = file_digest(_existing(Path(data.path)))
    else:
        from data.generators import GENERATOR_VERSION

        content = ["grammar", GENERATOR_VERSION, GRAMMAR_SEED, GRAMMAR_SENTENCES, GRAMMAR_WORDS]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"data.path={str(path)!r} is no file; leave it empty for built-in text")
    return path


def _read_file(path: Path) -> dict[str, str]:
    content = read_bytes(_existing(path))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line}: not UTF-8 (byte 0x{content[error.start]:02x}); convert the file"
            " to UTF-8"
        ) from error
    text = text.replace("\r\n", "\n").replace("\r", " ")
    ends = [0, *(len(text) * tenth // 10 for tenth in TENTHS), len(text)]
    return {name: text[ends[i] : ends[i + 1]] for i, name in enumerate(SPLITS)}


@lru_cache(maxsize=1)
def _grammar_text() -> dict[str, str]:
    from data.generators import grammar_pairs

    return {
        name: "".join(
            f"{english}\n"
            for english, _ in grammar_pairs(n, seed=GRAMMAR_SEED, split=name, **GRAMMAR_WORDS)
        )
        for name, n in GRAMMAR_SENTENCES.items()
    }

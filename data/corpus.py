"""Which sentence pairs a translation run reads: the choice, its checks and its fingerprint.

Imports neither torch nor Lightning, so that a plan can check a hundred cells at once.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from data.lengths import bucket_bounds
from data.parallel import Pair, file_digest, hub_splits, read_pairs, split_files

GRAMMAR_SEED = 0  # the data are the same in every run; a run's seed picks their order
GRAMMAR_TRAIN, GRAMMAR_EVALUATION = 20_000, 500
SMALLEST = {
    "vocabulary_size": 5,  # the four special tokens and one more
    "tokens_per_batch": 1,
    "max_length": 2,
    "train_max_source_words": 0,
    "n_train": 0,
    "n_test": 0,
    "min_words": 3,
}
MULTI30K_HUB = "bentrevett/multi30k"
MULTI30K_TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")


class TranslationSource(Enum):
    """Where sentence pairs come from.

    - `grammar`: written by `data.generators`; nothing to download.
    - `multi30k`: image captions (Elliott et al. 2016), from a folder or the hub.
    - `files`: a folder of anybody's parallel files or JSON lines.
    """

    grammar = "grammar"
    multi30k = "multi30k"
    files = "files"


@dataclass(frozen=True, kw_only=True)
class TranslationData:
    """Sentence pairs, their vocabulary and their batches.

    Attributes:
        source: where the pairs come from.
        path: a folder holding `train`, `val` and `test` files named `SPLIT.LANGUAGE` (plain or
            `.gz`) or `SPLIT.jsonl`; for `multi30k` also a dataset's name on the Hugging Face hub,
            empty for `bentrevett/multi30k`.
        source_language: file ending, or column, of the text to translate.
        target_language: file ending, or column, of its translation.
        vocabulary_size: joint subword tokens, special ones included.
        tokens_per_batch: tokens of a training batch over all ranks, on average: pairs drawn at
            random, each counted by its longer side, without padding; at least one for each rank.
        max_length: tokens with the end mark; longer training pairs are dropped and counted,
            evaluation pairs never.
        train_max_source_words: longest source sentence in training and validation, in words
            between white space, longer ones are dropped and counted; 0 for no limit. Test splits
            stay whole.
        eval_source_words: most source words of each bucket that the test splits are also measured
            in, growing: numbers such as `8,12,16`, or multiples of `train_max_source_words` such as
            `1x 2x`; longer sentences form a last one. Empty for no buckets.
        n_train: training pairs used, the first ones; 0 for all (`grammar`: 20000).
        n_test: at most so many pairs of each evaluation split, the first ones; 0 for all
            (`grammar`: 500).
        min_words: shortest English sentence, `grammar` only.
        max_words: longest English sentence, `grammar` only.

    Raises:
        ValueError: A number out of range.
    """

    source: TranslationSource = TranslationSource.grammar
    path: str = ""
    source_language: str = "en"
    target_language: str = "de"
    vocabulary_size: int = 400
    tokens_per_batch: int = 1024
    max_length: int = 128
    train_max_source_words: int = 0
    eval_source_words: str = ""
    n_train: int = 0
    n_test: int = 0
    min_words: int = 4
    max_words: int = 16

    def __post_init__(self) -> None:
        for name, smallest in SMALLEST.items():
            value = getattr(self, name)
            if value < smallest:
                raise ValueError(f"data.{name}={value} is too small: at least {smallest}")
        if self.min_words > self.max_words:
            raise ValueError(
                f"data.min_words={self.min_words} is more than data.max_words={self.max_words}"
            )
        if self.source_language == self.target_language:
            same = self.source_language
            raise ValueError(f"data.source_language and data.target_language are both {same!r}")
        source_word_bounds(self)


def source_word_bounds(data: TranslationData) -> tuple[int, ...]:
    """Most source words of each bucket of the test splits, the last one aside; maybe none.

    Raises:
        ValueError: As for `data.lengths.bucket_bounds`.
    """
    text, name = data.eval_source_words, "data.eval_source_words"
    if not text:
        return ()
    return bucket_bounds(text, name=name, trained=data.train_max_source_words)


def list_test_splits(data: TranslationData) -> list[str]:
    """Names of the test splits there are, the main one first; only names are looked at.

    Raises:
        ValueError: No such folder, or no test files in it.
    """
    if data.source is TranslationSource.grammar:
        return ["test"]
    if _on_hub(data):
        return [MULTI30K_TESTS[0]]
    return [name for name in _split_files(data) if name.startswith("test")]


def load_pairs(data: TranslationData) -> dict[str, list[Pair]]:
    """All splits by name: `train`, `validation` and the test splits; blank sentences included.

    Raises:
        ValueError: A file is missing, empty, not UTF-8 or of another length than its partner, or
            holds fewer than `n_train` pairs.
    """
    if data.source is TranslationSource.grammar:
        return _grammar_splits(data)
    if _on_hub(data):
        splits = _hub_pairs(data)
    else:
        languages = {"source": data.source_language, "target": data.target_language}
        splits = {
            name: read_pairs(files, **languages) for name, files in _split_files(data).items()
        }
    if data.n_train > len(splits["train"]):
        raise ValueError(
            f"data.n_train={data.n_train}: there are only {len(splits['train'])} training pairs"
        )
    limits = {name: data.n_train if name == "train" else data.n_test for name in splits}
    return {name: pairs[: limits[name] or None] for name, pairs in splits.items()}


def validate(data: TranslationData) -> None:
    """Read everything once and refuse what cannot be trained on.

    The vocabulary's size is the one thing left to `prepare_data`, which trains it.

    Raises:
        ValueError: As for `load_pairs`, in one line.
    """
    if data.source is not TranslationSource.grammar:
        load_pairs(data)


def fingerprint(data: TranslationData) -> str:
    """16 hex digits of the content of all splits, wherever the files lie and however packed.

    Raises:
        ValueError: As for `list_test_splits`.
    """
    content: object
    if data.source is TranslationSource.grammar:
        from data.generators import GENERATOR_VERSION

        content = ["grammar", GENERATOR_VERSION, GRAMMAR_SEED, data.min_words, data.max_words]
    elif _on_hub(data):
        content = _hub_pairs(data)
    else:
        content = {
            name: [file_digest(f) for f in files] for name, files in _split_files(data).items()
        }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _on_hub(data: TranslationData) -> bool:
    """Whether `path` names a dataset rather than a folder."""
    if data.source is not TranslationSource.multi30k:
        return False
    looks_like_one = re.fullmatch(r"\w[\w.-]*/[\w.-]+", data.path or MULTI30K_HUB) is not None
    return looks_like_one and not (data.path and Path(data.path).is_dir())


def _split_files(data: TranslationData) -> dict[str, tuple[Path, ...]]:
    """The files of every split.

    Raises:
        ValueError: The folder, or a split in it, is missing.
    """
    folder = Path(data.path)
    if not data.path or not folder.is_dir():
        raise ValueError(
            f"data.path={data.path!r} is no folder:"
            f" data.source={data.source.name} reads parallel files"
        )
    tests = MULTI30K_TESTS if data.source is TranslationSource.multi30k else ("test",)
    stems = {"train": "train", "validation": "val", **{test: test for test in tests}}
    languages = {"source": data.source_language, "target": data.target_language}
    found = {name: split_files(folder, stem=stem, **languages) for name, stem in stems.items()}
    found = {name: files for name, files in found.items() if files}
    for name in ("train", "validation", next((test for test in tests if test in found), tests[0])):
        if name not in found:
            stem = stems[name]
            raise ValueError(
                f"{folder}: no {stem} split; expected {stem}.{data.source_language} and"
                f" {stem}.{data.target_language} (plain or .gz), or {stem}.jsonl"
            )
    return found


def _hub_pairs(data: TranslationData) -> dict[str, list[Pair]]:
    return _named_hub_pairs(data.path or MULTI30K_HUB, data.source_language, data.target_language)


@lru_cache(maxsize=1)
def _named_hub_pairs(name: str, source: str, target: str) -> dict[str, list[Pair]]:
    splits = hub_splits(name, source=source, target=target)
    missing = {"train", "validation", "test"} - set(splits)
    if missing:
        raise ValueError(
            f"dataset {name!r} has no split {', '.join(sorted(missing))};"
            f" it has {', '.join(splits)}"
        )
    return {
        "train": splits["train"],
        "validation": splits["validation"],
        MULTI30K_TESTS[0]: splits["test"],
    }


def _grammar_splits(data: TranslationData) -> dict[str, list[Pair]]:
    from data.generators import SPLITS, grammar_pairs

    counts = dict.fromkeys(SPLITS, data.n_test or GRAMMAR_EVALUATION)
    counts["train"] = data.n_train or GRAMMAR_TRAIN
    rules = {"seed": GRAMMAR_SEED, "min_words": data.min_words, "max_words": data.max_words}
    return {name: grammar_pairs(n, split=name, **rules) for name, n in counts.items()}

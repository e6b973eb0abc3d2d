"""Sentence pairs as token ids: which of them are used, and in which vocabulary."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from data.corpus import TranslationData, load_pairs
from data.lengths import buckets
from data.parallel import Pair, count_words, without_blanks
from data.tokenization import Tokenizer, train_tokenizer, unknown_share

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

    def by_source_words(self, bounds: tuple[int, ...]) -> dict[int, list[int]]:
        """The pairs of each length of the source, by the most words of each; see `buckets`."""
        return buckets([count_words(source) for source, _ in self.pairs], bounds)

    def longest(self, rows: Iterable[int] | None = None) -> int:
        """Tokens of the longest sentence on either side, the end mark included, among `rows`."""
        lengths = self.lengths()
        chosen = lengths if rows is None else [lengths[row] for row in rows]
        return max(length for pair in chosen for length in pair)

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

    The vocabulary is that of all training pairs, also where only short ones are trained on, so
    that a loss per token means the same whatever the limit.

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
        dropped = {"blank": len(loaded[name]) - len(split)}
        if name in ("train", "validation") and data.train_max_source_words:
            split = _short(split, data.train_max_source_words, name=name)
            dropped["long_source"] = len(pairs[name]) - len(split)
        limit = data.max_length if name == "train" else None
        splits[name] = _tokenise(split, tokenizer, limit=limit, dropped=dropped)
    if not splits["train"].ids:
        raise ValueError(f"data.max_length={data.max_length}: every training pair is longer")
    return Corpus(tokenizer, splits)


def _short(pairs: list[Pair], most_words: int, *, name: str) -> list[Pair]:
    kept = [pair for pair in pairs if count_words(pair[0]) <= most_words]
    if not kept:
        raise ValueError(
            f"data.train_max_source_words={most_words}: every source of {name} is longer"
        )
    return kept


def _tokenizer(pairs: Iterable[Pair], *, vocabulary_size: int, path: Path) -> Tokenizer:
    if path.exists():
        return Tokenizer.load(path)
    lines = [sentence for pair in pairs for sentence in pair]
    return train_tokenizer(lines, vocabulary_size=vocabulary_size, path=path)


def _tokenise(
    pairs: list[Pair], tokenizer: Tokenizer, *, limit: int | None, dropped: dict[str, int]
) -> Split:
    sides = (tokenizer.encode_lines([pair[side] for pair in pairs]) for side in (0, 1))
    ids = list(zip(*sides, strict=True))
    kept = [i for i, pair in enumerate(ids) if limit is None or max(map(len, pair)) < limit]
    dropped = {**dropped, "too_long": len(ids) - len(kept)}
    return Split([pairs[i] for i in kept], [ids[i] for i in kept], dropped)

"""The examples of the sequence tasks: sources drawn at random, targets computed from them.

Symbols are numbers from 0; a block holds examples of one length, `(examples, tokens)` each side.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from data.sequences import SIZES, SequenceData, SequenceTask, test_lengths

Tokens = NDArray[np.integer]
Block = tuple[Tokens, Tokens]

DATA_SEED = 0  # the data are the same in every run; a run's seed picks their order
CANDIDATES = 4096  # sources drawn at once, of which a split keeps its share
FRUITLESS = 8  # draws in a row without anything new, after which nothing new is expected


def solve(task: SequenceTask, source: Tokens, *, alphabet: int) -> Tokens:
    """The targets `(examples, target_tokens)` of sources `(examples, source_tokens)`."""
    return _SOLVED[task](source, alphabet).astype("<i2")


def draw_candidates(data: SequenceData, *, split: str, items: int, block: int) -> Tokens:
    """Those of `CANDIDATES` sources that belong to a split; a new block gives new ones."""
    key = zlib.crc32(f"{data.task.name}/{split}".encode())
    generator = np.random.default_rng([DATA_SEED, key, items, block])
    sources = _DRAWN[data.task](generator, data.alphabet, items).astype("<i2")
    return sources[split_of(sources) == split]


def split_of(source: Tokens) -> NDArray[np.str_]:
    """The split each source belongs to, whoever draws it: 8 in 10 are for training."""
    rows = np.ascontiguousarray(source, dtype="<i2")
    buckets = np.array([zlib.crc32(row) % 10 for row in rows])
    return np.where(buckets == 8, "validation", np.where(buckets == 9, "test", "train"))


@lru_cache(maxsize=4)
def draw_splits(data: SequenceData) -> dict[str, list[Block]]:
    """All splits: `train` and `validation`, with a block for each trained length, and the tests.

    A test set is called by its length, as `test_splits` does. No source is in two of `train`,
    `validation` and the tests; training and validation sources may come twice.

    Raises:
        ValueError: No trained length has a source for validation, or a test length has too few.
    """
    trained = range(data.train_min, data.train_max + 1)
    splits = {
        name: [
            _draw(data, split=name, items=items, n=n)
            for items, n in zip(trained, _shares(total, len(trained)), strict=True)
        ]
        for name, total in (("train", data.n_train), ("validation", data.n_eval))
    }
    if not any(len(source) for source, _ in splits["validation"]):
        raise ValueError(
            f"data.train_max={data.train_max}: no source is left for validation;"
            " use more symbols or longer examples"
        )
    for items in test_lengths(data):
        block = _draw(data, split="test", items=items, n=data.n_eval, distinct=True)
        if len(block[0]) < data.n_eval:
            raise ValueError(
                f"data.n_eval={data.n_eval}: only {len(block[0])} different test sources of"
                f" {items} items were found; ask for fewer, or use more symbols"
            )
        splits[f"test_{items}"] = [block]
    return splits


def _shares(total: int, parts: int) -> list[int]:
    """`total` in parts that differ by at most one."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def _draw(data: SequenceData, *, split: str, items: int, n: int, distinct: bool = False) -> Block:
    """The first `n` sources of a split with so many items, fewer when there are no more."""
    found = np.empty((0, SIZES[data.task].source_tokens(items)), dtype="<i2")
    block = fruitless = 0
    while len(found) < n and fruitless < FRUITLESS:
        new = draw_candidates(data, split=split, items=items, block=block)
        before, found = len(found), np.concatenate([found, new])
        if distinct:
            _, first = np.unique(found, axis=0, return_index=True)
            found = found[np.sort(first)]
        fruitless = 0 if len(found) > before else fruitless + 1
        block += 1
    return found[:n], solve(data.task, found[:n], alphabet=data.alphabet)


def _draw_items(generator: Generator, alphabet: int, items: int) -> Tokens:
    return generator.integers(alphabet, size=(CANDIDATES, items))


def _draw_numbers(generator: Generator, alphabet: int, items: int) -> Tokens:
    """Digits, a plus sign behind the alphabet, digits."""
    source = generator.integers(alphabet, size=(CANDIDATES, 2 * items + 1))
    source[:, items] = alphabet
    return source


def _draw_with_query(
    generator: Generator, alphabet: int, items: int, places: int
) -> tuple[Tokens, Tokens]:
    """Items and one of them, `(candidates, 1)`, that stands once, at one of the first `places`."""
    query = generator.integers(alphabet, size=(CANDIDATES, 1))
    row = generator.integers(alphabet - 1, size=(CANDIDATES, items))
    row += row >= query
    np.put_along_axis(row, generator.integers(places, size=(CANDIDATES, 1)), query, axis=1)
    return row, query


def _draw_neighbours(generator: Generator, alphabet: int, items: int) -> Tokens:
    return np.concatenate(_draw_with_query(generator, alphabet, items, items - 1), axis=1)


def _draw_pairs(generator: Generator, alphabet: int, items: int) -> Tokens:
    """Keys below the alphabet and values above it, in turn, then a key."""
    keys, query = _draw_with_query(generator, alphabet, items, items)
    values = generator.integers(alphabet, 2 * alphabet, size=(CANDIDATES, items))
    pairs = np.stack([keys, values], axis=2).reshape(CANDIDATES, 2 * items)
    return np.concatenate([pairs, query], axis=1)


def _add(source: Tokens, alphabet: int) -> Tokens:
    items = source.shape[1] // 2
    total = np.zeros((len(source), items + 1), dtype=source.dtype)
    total[:, :items] = source[:, :items] + source[:, items + 1 :]
    for place in range(items):
        carry, total[:, place] = np.divmod(total[:, place], alphabet)
        total[:, place + 1] += carry
    return total


def _behind_query(source: Tokens, step: int) -> Tokens:
    """What follows the last token where it stands before, at every `step`-th place."""
    places = (source[:, :-1:step] == source[:, -1:]).argmax(axis=1, keepdims=True) * step
    return np.take_along_axis(source, places + 1, axis=1)


_DRAWN: dict[SequenceTask, Callable[[Generator, int, int], Tokens]] = {
    SequenceTask.copy: _draw_items,
    SequenceTask.reverse: _draw_items,
    SequenceTask.sort: _draw_items,
    SequenceTask.addition: _draw_numbers,
    SequenceTask.associative_recall: _draw_pairs,
    SequenceTask.neighbour: _draw_neighbours,
}
_SOLVED: dict[SequenceTask, Callable[[Tokens, int], Tokens]] = {
    SequenceTask.copy: lambda source, alphabet: source,
    SequenceTask.reverse: lambda source, alphabet: source[:, ::-1],
    SequenceTask.sort: lambda source, alphabet: np.sort(source, axis=1),
    SequenceTask.addition: _add,
    SequenceTask.associative_recall: lambda source, alphabet: _behind_query(source, 2),
    SequenceTask.neighbour: lambda source, alphabet: _behind_query(source, 1),
}

"""Examples against solvers written in another way; splits that share nothing."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.sequence_examples import Block, draw_candidates, draw_splits, solve, split_of
from data.sequences import SIZES, SequenceData, SequenceTask

DATA = SequenceData(alphabet=5, train_max=6, eval_lengths="1x 2x", n_train=1200, n_eval=60)
TASKS = pytest.mark.parametrize("task", SequenceTask)


def number(digits: list[int], base: int) -> int:
    return sum(digit * base**place for place, digit in enumerate(digits))


def answer(task: SequenceTask, source: list[int], base: int) -> list[int]:
    """The target, by plain Python."""
    if task is SequenceTask.addition:
        plus = source.index(base)
        total = number(source[:plus], base) + number(source[plus + 1 :], base)
        return [total // base**place % base for place in range(plus + 1)]
    *body, query = source
    return {
        SequenceTask.copy: lambda: list(source),
        SequenceTask.reverse: lambda: list(reversed(source)),
        SequenceTask.sort: lambda: sorted(source),
        SequenceTask.associative_recall: lambda: [
            dict(zip(body[::2], body[1::2], strict=True))[query]
        ],
        SequenceTask.neighbour: lambda: [body[body.index(query) + 1]],
    }[task]()


def rows(blocks: list[Block]) -> list[tuple[list[int], list[int]]]:
    return [
        pair
        for source, target in blocks
        for pair in zip(source.tolist(), target.tolist(), strict=True)
    ]


@TASKS
def test_targets_are_what_an_independent_solver_finds(task: SequenceTask) -> None:
    for blocks in draw_splits(replace(DATA, task=task)).values():
        for source, target in rows(blocks):
            assert target == answer(task, source, DATA.alphabet)


@given(data=st.data(), base=st.integers(2, 12), items=st.integers(1, 9))
def test_addition_carries(data: st.DataObject, base: int, items: int) -> None:
    digits = st.lists(st.integers(0, base - 1), min_size=items, max_size=items)
    source = [*data.draw(digits), base, *data.draw(digits)]
    found = solve(SequenceTask.addition, np.array([source]), alphabet=base)
    assert found.tolist() == [answer(SequenceTask.addition, source, base)]


@TASKS
def test_the_query_stands_once(task: SequenceTask) -> None:
    step = {SequenceTask.associative_recall: 2, SequenceTask.neighbour: 1}.get(task)
    if step is None:
        return
    places = set()
    for source, _ in rows(draw_splits(replace(DATA, task=task))["train"]):
        body = source[:-1:step]
        assert body.count(source[-1]) == 1
        places.add(body.index(source[-1]))
    assert places == set(range(6 if step == 2 else 5))


@TASKS
def test_sizes_are_those_of_the_examples(task: SequenceTask) -> None:
    data, sizes = replace(DATA, task=task), SIZES[task]
    splits = draw_splits(data)
    lengths = {"train": range(2, 7), "validation": range(2, 7), "test_6": [6], "test_12": [12]}
    assert list(splits) == list(lengths)
    for name, items in lengths.items():
        shapes = [(source.shape[1], target.shape[1]) for source, target in splits[name]]
        assert shapes == [(sizes.source_tokens(n), sizes.target_tokens(n)) for n in items]
    symbols = {token for pair in rows(splits["test_12"]) for side in pair for token in side}
    assert symbols == set(range(sizes.symbols(DATA.alphabet)))


@TASKS
@pytest.mark.parametrize("more", [0, 1])
def test_sources_are_counted_as_they_are_drawn(task: SequenceTask, more: int) -> None:
    """Where there are so few that every one is found; some of them are for training."""
    sizes = SIZES[task]
    alphabet, items = sizes.fewest_symbols + more, sizes.fewest_items
    data = replace(DATA, task=task, alphabet=alphabet, eval_lengths="40", n_eval=1)
    found = {
        split: {
            tuple(source)
            for source in draw_candidates(data, split=split, items=items, block=0).tolist()
        }
        for split in ("train", "validation", "test")
    }
    assert sum(map(len, found.values())) == sizes.sources(alphabet, items)
    assert found["train"]


@TASKS
def test_no_source_is_in_two_splits(task: SequenceTask) -> None:
    splits = draw_splits(replace(DATA, task=task))
    sources = {
        name: {tuple(source) for source, _ in rows(blocks)} for name, blocks in splits.items()
    }
    for one, other in itertools.combinations(sources, 2):
        assert not sources[one] & sources[other]
    assert len(sources["test_6"]) == len(sources["test_12"]) == 60
    assert [len(source) for source, _ in splits["train"]] == [240] * 5


def test_a_test_set_is_the_same_however_long_it_is_and_whatever_is_trained() -> None:
    few, many = DATA, replace(DATA, n_eval=100, n_train=50, train_min=4, batch_size=7)
    for name in ("test_6", "test_12"):
        assert rows(draw_splits(few)[name]) == rows(draw_splits(many)[name])[:60]


def test_examples_depend_on_nothing_else() -> None:
    before = rows(draw_splits(DATA)["train"])
    draw_splits.cache_clear()
    np.random.default_rng().random()
    assert rows(draw_splits(DATA)["train"]) == before


@given(st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=1))
def test_a_source_belongs_to_one_split_whoever_asks(sources: list[list[int]]) -> None:
    together = split_of(np.array(sources))
    alone = [str(split_of(np.array([source], dtype=np.int32))[0]) for source in sources]
    assert together.tolist() == alone


def test_eight_of_ten_sources_are_for_training() -> None:
    digits = np.array(list(itertools.product(range(10), repeat=4)))
    names, counts = np.unique(split_of(digits), return_counts=True)
    shares = dict(zip(names.tolist(), (counts / 10_000).tolist(), strict=True))
    assert shares == pytest.approx({"train": 0.8, "validation": 0.1, "test": 0.1}, abs=0.02)

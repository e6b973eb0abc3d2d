"""Batches by token budget: everything once, whoever asks."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.batching import TokenBudgetBatches

LENGTHS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=4, max_size=120)


def samplers(
    lengths: list[tuple[int, int]], world_size: int, **options
) -> list[TokenBudgetBatches]:
    return [
        TokenBudgetBatches(lengths, rank=rank, world_size=world_size, **options)
        for rank in range(world_size)
    ]


def varied(n: int) -> list[tuple[int, int]]:
    return [(2 + i % 17, 2 + (i * 7) % 19) for i in range(n)]


@given(
    lengths=LENGTHS,
    budget=st.integers(1, 200),
    world_size=st.integers(1, 4),
)
def test_every_example_once_and_every_rank_in_step(
    lengths: list[tuple[int, int]], budget: int, world_size: int
) -> None:
    ranks = samplers(lengths, world_size, tokens_per_batch=budget)
    seen: Counter[int] = Counter()
    for sampler in ranks:
        batches = list(sampler)
        assert len(batches) == len(sampler)
        assert all(batches)
        seen.update(index for batch in batches for index in batch)
    assert seen == Counter(range(len(lengths)))
    assert len({len(sampler) for sampler in ranks}) == 1


@given(lengths=LENGTHS, budget=st.integers(40, 400))
def test_a_batch_keeps_to_the_budget(lengths: list[tuple[int, int]], budget: int) -> None:
    sampler = TokenBudgetBatches(lengths, tokens_per_batch=budget)
    for batch in sampler:
        assert len(batch) * max(max(lengths[i]) for i in batch) <= budget


def test_a_pair_longer_than_the_budget_makes_a_batch_of_its_own() -> None:
    sampler = TokenBudgetBatches([(50, 3), (2, 2), (2, 2)], tokens_per_batch=10)
    assert sorted(map(sorted, sampler)) == [[0], [1, 2]]


def test_the_ranks_share_the_batches_that_one_process_would_have() -> None:
    lengths = varied(300)
    alone = TokenBudgetBatches(lengths, tokens_per_batch=200)
    ranks = samplers(lengths, 2, tokens_per_batch=200)
    together = [sorted(a + b) for a, b in zip(*ranks, strict=True)]
    assert together == [sorted(batch) for batch in alone]


def test_the_longest_come_first() -> None:
    lengths = varied(100)
    sampler = TokenBudgetBatches(lengths, tokens_per_batch=60)
    order = [lengths[i] for batch in sampler for i in batch]
    assert order == sorted(lengths, reverse=True)


def test_five_sentences_over_two_ranks_come_once_each() -> None:
    ranks = samplers(varied(5), 2, tokens_per_batch=1000)
    shares = [[index for batch in sampler for index in batch] for sampler in ranks]
    assert sorted(shares[0] + shares[1]) == [0, 1, 2, 3, 4]


def test_more_ranks_than_evaluation_sentences_leave_some_idle() -> None:
    ranks = samplers(varied(2), 3, tokens_per_batch=1000)
    assert [len(sampler) for sampler in ranks] == [1, 1, 0]
    assert [len(list(sampler)) for sampler in ranks] == [1, 1, 0]


def test_no_example_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0 examples are too few"):
        TokenBudgetBatches([], tokens_per_batch=100)

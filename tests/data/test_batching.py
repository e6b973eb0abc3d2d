"""The batch sampler: everything once, whoever asks, in an order that seed and epoch decide."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.batching import TokenBudgetSampler, padding_share

LENGTHS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=4, max_size=120)


def samplers(
    lengths: list[tuple[int, int]], world_size: int, **options
) -> list[TokenBudgetSampler]:
    return [
        TokenBudgetSampler(lengths, rank=rank, world_size=world_size, **options)
        for rank in range(world_size)
    ]


def varied(n: int) -> list[tuple[int, int]]:
    return [(2 + i % 17, 2 + (i * 7) % 19) for i in range(n)]


@given(
    lengths=LENGTHS,
    budget=st.integers(1, 200),
    world_size=st.integers(1, 4),
    epoch=st.integers(0, 3),
    shuffle=st.booleans(),
)
def test_every_example_once_and_every_rank_in_step(
    lengths: list[tuple[int, int]], budget: int, world_size: int, epoch: int, shuffle: bool
) -> None:
    ranks = samplers(lengths, world_size, tokens_per_batch=budget, seed=5, shuffle=shuffle)
    seen: Counter[int] = Counter()
    for sampler in ranks:
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert len(batches) == len(sampler)
        assert all(batches)
        seen.update(index for batch in batches for index in batch)
    assert seen == Counter(range(len(lengths)))
    assert len({len(sampler) for sampler in ranks}) == 1


@given(lengths=LENGTHS, budget=st.integers(40, 400))
def test_a_batch_keeps_to_the_budget(lengths: list[tuple[int, int]], budget: int) -> None:
    sampler = TokenBudgetSampler(lengths, tokens_per_batch=budget)
    for batch in sampler:
        assert len(batch) * max(max(lengths[i]) for i in batch) <= budget


def test_a_pair_longer_than_the_budget_makes_a_batch_of_its_own() -> None:
    sampler = TokenBudgetSampler([(50, 3), (2, 2), (2, 2)], tokens_per_batch=10)
    assert sorted(map(sorted, sampler)) == [[0], [1, 2]]


def test_the_ranks_share_the_batches_that_one_process_would_have() -> None:
    lengths = varied(300)
    alone = TokenBudgetSampler(lengths, tokens_per_batch=200, seed=3)
    ranks = samplers(lengths, 2, tokens_per_batch=200, seed=3)
    together = [sorted(a + b) for a, b in zip(*ranks, strict=True)]
    assert together == [sorted(batch) for batch in alone]


def test_order_differs_by_seed_and_by_epoch_and_repeats() -> None:
    lengths = varied(300)

    def order(seed: int, epoch: int) -> list[list[int]]:
        sampler = TokenBudgetSampler(lengths, tokens_per_batch=200, seed=seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    assert order(1, 0) == order(1, 0)
    assert len({str(order(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4


def test_two_seeds_on_two_ranks_start_with_different_examples() -> None:
    lengths = varied(300)
    first = {
        (seed, rank): next(iter(sampler))
        for seed in (1, 2)
        for rank, sampler in enumerate(samplers(lengths, 2, tokens_per_batch=200, seed=seed))
    }
    again = next(iter(samplers(lengths, 2, tokens_per_batch=200, seed=1)[1]))
    assert first[1, 1] == again
    assert first[1, 0] != first[2, 0]
    assert first[1, 1] != first[2, 1]
    assert not set(first[1, 0]) & set(first[1, 1])


def test_neighbours_change_from_epoch_to_epoch() -> None:
    """Not only the order of fixed batches: examples of equal length meet others."""
    lengths = [(8, 8)] * 100
    sampler = TokenBudgetSampler(lengths, tokens_per_batch=80)
    first = {frozenset(batch) for batch in sampler}
    sampler.set_epoch(1)
    assert first != {frozenset(batch) for batch in sampler}


def test_the_number_of_batches_is_the_same_in_every_epoch() -> None:
    sampler = TokenBudgetSampler(varied(500), tokens_per_batch=150)
    counts = set()
    for epoch in range(5):
        sampler.set_epoch(epoch)
        counts.add(len(list(sampler)))
    assert counts == {len(sampler)}


def test_without_shuffling_the_longest_come_first() -> None:
    lengths = varied(100)
    sampler = TokenBudgetSampler(lengths, tokens_per_batch=60, shuffle=False)
    order = [lengths[i] for batch in sampler for i in batch]
    assert order == sorted(lengths, reverse=True)


def test_five_sentences_over_two_ranks_come_once_each() -> None:
    ranks = samplers(varied(5), 2, tokens_per_batch=1000, shuffle=False)
    shares = [[index for batch in sampler for index in batch] for sampler in ranks]
    assert sorted(shares[0] + shares[1]) == [0, 1, 2, 3, 4]


def test_more_ranks_than_evaluation_sentences_leave_some_idle() -> None:
    ranks = samplers(varied(2), 3, tokens_per_batch=1000, shuffle=False)
    assert [len(sampler) for sampler in ranks] == [1, 1, 0]
    assert [len(list(sampler)) for sampler in ranks] == [1, 1, 0]


def test_more_ranks_than_training_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2 examples are too few for 3 process"):
        TokenBudgetSampler(varied(2), tokens_per_batch=100, world_size=3)
    with pytest.raises(ValueError, match=r"0 examples are too few"):
        TokenBudgetSampler([], tokens_per_batch=100, shuffle=False)


def test_padding_share_by_hand() -> None:
    lengths = [(4, 4), (3, 2), (1, 1)]
    sampler = TokenBudgetSampler(lengths, tokens_per_batch=12)
    assert padding_share(sampler, [4, 3, 1]) == pytest.approx(4 / 12)


def test_bucketing_pays() -> None:
    lengths = varied(2000)
    sampler = TokenBudgetSampler(lengths, tokens_per_batch=1024)
    assert padding_share(sampler, [first for first, _ in lengths]) < 0.05

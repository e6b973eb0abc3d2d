"""Batches of rows: every row once, whatever the number of processes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.row_batching import RowBatches


@given(
    n_rows=st.integers(1, 60),
    batch_size=st.integers(1, 20),
    world_size=st.integers(1, 4),
    shuffle=st.booleans(),
    epoch=st.integers(0, 3),
)
def test_all_ranks_together_read_every_row_once(
    n_rows: int, batch_size: int, world_size: int, shuffle: bool, epoch: int
) -> None:
    if n_rows < world_size and shuffle:
        return
    seen: list[int] = []
    steps = []
    for rank in range(world_size):
        batches = RowBatches(
            n_rows, batch_size=batch_size, shuffle=shuffle, rank=rank, world_size=world_size
        )
        batches.set_epoch(epoch)
        shares = list(batches)
        assert len(shares) == len(batches)
        seen += [row for share in shares for row in share]
        steps.append(len(shares))
    assert sorted(seen) == list(range(n_rows))
    if shuffle:
        assert len(set(steps)) == 1


def test_the_order_follows_seed_and_epoch() -> None:
    def order(*, seed: int, epoch: int = 0) -> list[list[int]]:
        batches = RowBatches(40, batch_size=8, seed=seed)
        batches.set_epoch(epoch)
        return list(batches)

    assert order(seed=1) == order(seed=1)
    assert order(seed=1) != order(seed=2)
    assert order(seed=1, epoch=1) != order(seed=1)
    assert [len(batch) for batch in order(seed=1)] == [8] * 5


def test_evaluation_keeps_the_order_of_the_rows() -> None:
    assert list(RowBatches(5, batch_size=2, shuffle=False)) == [[0, 1], [2, 3], [4]]


def test_neighbours_change_from_epoch_to_epoch() -> None:
    batches = RowBatches(100, batch_size=10)
    first = {frozenset(batch) for batch in batches}
    batches.set_epoch(1)
    assert not first & {frozenset(batch) for batch in batches}


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ValueError, match=r"1 rows are too few for 2 process"):
        RowBatches(1, batch_size=2, world_size=2)
    with pytest.raises(ValueError, match=r"0 rows are too few"):
        RowBatches(0, batch_size=2, shuffle=False)

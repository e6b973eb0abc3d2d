"""Batches of a fixed number of rows, the same for everybody.

What a process reads is a function of (seed, epoch, rank, world size) and of nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
import torch.distributed
from torch.utils.data import Sampler


def process_share() -> tuple[int, int]:
    """This process's rank and the number of processes."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


class RowBatches(Sampler[list[int]]):
    """`batch_size` rows at a time over all ranks, every row once an epoch.

    For a DataLoader with `batch_size=None` whose dataset makes a batch of a list of rows.

    A global batch is shared out over the ranks row by row. The number of batches is the same in
    every epoch. While shuffling, a last batch too small for all ranks joins the one before it.

    Args:
        n_rows: rows of the split.
        batch_size: rows of a batch over all ranks; each rank gets at least one even so.
        seed: picks the order, together with the epoch.
        shuffle: a new order each epoch; else that of the rows.
        rank: this process.
        world_size: number of processes.

    Raises:
        ValueError: No row, or fewer than processes when shuffling (a rank would starve).
    """

    def __init__(
        self,
        n_rows: int,
        *,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        smallest = world_size if shuffle else 1
        if n_rows < smallest:
            raise ValueError(
                f"{n_rows} rows are too few for {smallest} process(es): at least one each"
            )
        self._n_rows = n_rows
        self._seed = seed
        self._shuffle = shuffle
        self._rank = rank
        self._world_size = world_size
        self._epoch = 0
        self._starts = list(range(0, n_rows, max(batch_size, world_size)))
        if shuffle and n_rows - self._starts[-1] < world_size:
            self._starts.pop()

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass, counted from 0; Lightning calls it."""
        self._epoch = epoch

    def __len__(self) -> int:
        """Batches in an epoch, for this rank."""
        last = self._n_rows - self._starts[-1]
        return len(self._starts) - (last <= self._rank)

    def __iter__(self) -> Iterator[list[int]]:
        """This rank's share of every global batch."""
        order = self._order()
        for start, end in zip(self._starts, [*self._starts[1:], self._n_rows], strict=True):
            if share := order[start:end][self._rank :: self._world_size]:
                yield share

    def _order(self) -> list[int]:
        if not self._shuffle:
            return list(range(self._n_rows))
        seed = random.Random(f"{self._seed}/{self._epoch}").getrandbits(63)
        return torch.randperm(self._n_rows, generator=torch.Generator().manual_seed(seed)).tolist()

"""Batches by token budget: sentences of like length together, the same for everybody.

What a process reads is a function of (seed, epoch, rank, world size) and of nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler


class TokenBudgetSampler(Sampler[list[int]]):
    """Batch sampler: length-bucketed, at most `tokens_per_batch` padded tokens in a global batch.

    A global batch is shared out over the ranks row by row, so that all ranks take the same number
    of steps with batches of like shape, and every example comes exactly once over all ranks.
    The number of batches is the same in every epoch.

    A batch holds at least one row for each rank, even where that exceeds the budget.

    Args:
        lengths: two token counts for each example, special tokens included. Batches are cut from
            the examples sorted by the first, then by the second; a row costs the longer one.
        tokens_per_batch: largest rows x longest side, over all ranks.
        seed: picks the order, together with the epoch.
        shuffle: new neighbours and a new order of batches each epoch; else longest first.
        rank: this process.
        world_size: number of processes.

    Raises:
        ValueError: No example, or fewer than processes when shuffling (a rank would starve).
    """

    def __init__(
        self,
        lengths: Sequence[tuple[int, int]],
        *,
        tokens_per_batch: int,
        seed: int = 0,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        smallest = world_size if shuffle else 1
        if len(lengths) < smallest:
            raise ValueError(
                f"{len(lengths)} examples are too few for {smallest} process(es): at least one each"
            )
        self._lengths = lengths
        self._tokens_per_batch = tokens_per_batch
        self._seed = seed
        self._shuffle = shuffle
        self._rank = rank
        self._world_size = world_size
        self._epoch = 0
        self._batch_sizes = self._cut()

    @property
    def sampler(self) -> TokenBudgetSampler:
        """Itself: where Lightning looks for `set_epoch` at the start of each epoch."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass, counted from 0."""
        self._epoch = epoch

    def __len__(self) -> int:
        """Batches in an epoch, for this rank."""
        return sum(size > self._rank for size in self._batch_sizes)

    def __iter__(self) -> Iterator[list[int]]:
        """This rank's share of every global batch."""
        for batch in self.global_batches():
            if share := batch[self._rank :: self._world_size]:
                yield share

    def global_batches(self) -> list[list[int]]:
        """The batches of this epoch before they are shared out: positions of examples."""
        generator = random.Random(f"{self._seed}/{self._epoch}")
        order = list(range(len(self._lengths)))
        if self._shuffle:
            generator.shuffle(order)
        order.sort(key=self._lengths.__getitem__, reverse=True)
        rows = iter(order)
        batches = [[next(rows) for _ in range(size)] for size in self._batch_sizes]
        if self._shuffle:
            generator.shuffle(batches)
        return batches

    def _cut(self) -> list[int]:
        """Sizes of the batches; ties among equal lengths don't move them."""
        sizes = [0]
        longest = 0
        for length in sorted(self._lengths, reverse=True):
            longest = max(longest, *length)
            full = (sizes[-1] + 1) * longest > self._tokens_per_batch
            if full and sizes[-1] >= self._world_size:
                sizes.append(0)
                longest = max(length)
            sizes[-1] += 1
        if len(sizes) > 1 and sizes[-1] < self._world_size:
            remainder = sizes.pop()
            sizes[-1] += remainder
        return sizes


def padding_share(sampler: TokenBudgetSampler, lengths: Sequence[int]) -> float:
    """Share of padding among the positions of one side, over an epoch's global batches."""
    batches = sampler.global_batches()
    positions = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)
    return 1 - sum(lengths) / positions

"""Batches by token budget, rows of like length together: for evaluation, where order is free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler


class TokenBudgetBatches(Sampler[list[int]]):
    """At most `tokens_per_batch` padded tokens in a global batch, longest rows first.

    For a DataLoader with `batch_size=None` whose dataset makes a batch of a list of rows. A global
    batch is shared out over the ranks row by row; it holds at least one row for each, even where
    that exceeds the budget.

    Args:
        lengths: two token counts for each example, special tokens included. Batches are cut from
            the examples sorted by the first, then by the second; a row costs the longer one.
        tokens_per_batch: largest rows x longest side, over all ranks.
        rank: this process.
        world_size: number of processes.

    Raises:
        ValueError: No example.
    """

    def __init__(
        self,
        lengths: Sequence[tuple[int, int]],
        *,
        tokens_per_batch: int,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if not lengths:
            raise ValueError("0 examples are too few for a batch: at least one")
        self._rank, self._world_size = rank, world_size
        self._batches = self._cut(lengths, tokens_per_batch)

    def __len__(self) -> int:
        """Batches, for this rank."""
        return sum(len(batch) > self._rank for batch in self._batches)

    def __iter__(self) -> Iterator[list[int]]:
        """This rank's share of every global batch."""
        for batch in self._batches:
            if share := batch[self._rank :: self._world_size]:
                yield share

    def _cut(self, lengths: Sequence[tuple[int, int]], budget: int) -> list[list[int]]:
        batches: list[list[int]] = [[]]
        longest = 0
        for row in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
            longest = max(longest, *lengths[row])
            full = (len(batches[-1]) + 1) * longest > budget
            if full and len(batches[-1]) >= self._world_size:
                batches.append([])
                longest = max(lengths[row])
            batches[-1].append(row)
        if len(batches) > 1 and len(batches[-1]) < self._world_size:
            remainder = batches.pop()
            batches[-1] += remainder
        return batches

"""Training batches that a checkpoint can go on with, and that can be taken in parts."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader


class TrainingLoader:
    """The batches of a DataLoader, from any place of an epoch on.

    What an epoch holds is decided by its samplers, which Lightning tells the epoch; this counts
    what was handed out of it.

    Args:
        loader: gives the batches in the order of its sampler.
        parts: into how many each batch is cut, row by row, for machines that lack the memory.

    Attributes:
        sampler: the loader's own, for Lightning.
    """

    def __init__(self, loader: DataLoader, *, parts: int = 1) -> None:
        self.loader, self.parts = loader, parts
        self.sampler = loader.sampler
        self._start = 0
        self._handed_out = 0

    def __len__(self) -> int:
        """Parts of batches in an epoch."""
        return len(self.loader) * self.parts

    def __iter__(self) -> Iterator[Any]:
        """The rest of the epoch after `load_state_dict`, a whole one else."""
        start, self._start = self._start, 0
        self._handed_out = start
        for part in islice(self._all_parts(), start, None):
            self._handed_out += 1
            yield part

    def state_dict(self) -> dict[str, int]:
        """How much of the epoch was handed out."""
        return {"handed_out": self._handed_out}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Begin the next pass there."""
        self._start = state_dict["handed_out"]

    def smallest_batch(self) -> int:
        """Rows of the smallest batch of an epoch."""
        return min(map(len, self.sampler))

    def _all_parts(self) -> Iterator[Any]:
        for batch in self.loader:
            if self.parts == 1:
                yield batch
                continue
            for part in range(self.parts):
                yield batch.take(list(range(part, len(batch), self.parts)))

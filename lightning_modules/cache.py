"""The key/value cache: one for all decoding."""

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class LayerCache:
    """Keys and values of one attention layer, `(batch, heads, key, d_head)` each, None at first."""

    keys: Tensor | None = None
    values: Tensor | None = None

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add new keys and values behind the cached ones, and return them all."""
        if self.keys is not None and self.values is not None:
            keys = torch.cat([self.keys, keys], dim=2)
            values = torch.cat([self.values, values], dim=2)
        self.keys, self.values = keys, values
        return keys, values

    def select(self, rows: Tensor) -> None:
        """Keep or repeat batch rows, by index `(rows,)`."""
        if self.keys is not None and self.values is not None:
            # On a CPU a fraction of the time of indexing.
            self.keys = self.keys.index_select(0, rows)
            self.values = self.values.index_select(0, rows)


@dataclass
class Cache:
    """What a decoder remembers between steps: self-attention and memory of each layer."""

    n_layers: int
    length: int = 0
    own: list[LayerCache] = field(init=False)
    memory: list[LayerCache] = field(init=False)

    def __post_init__(self) -> None:
        """Start empty."""
        self.own = [LayerCache() for _ in range(self.n_layers)]
        self.memory = [LayerCache() for _ in range(self.n_layers)]

    def select(self, rows: Tensor) -> None:
        """Keep or repeat batch rows in every layer: finished rows are dropped."""
        for layer in (*self.own, *self.memory):
            layer.select(rows)

    def reorder(self, rows: Tensor) -> None:
        """Put each batch row in the place of one that reads the same memory: beams change order."""
        for layer in self.own:
            layer.select(rows)

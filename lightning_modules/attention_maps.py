"""What every head of a model attends to in one example."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from lightning_modules.probes import (
    AttentionRecord,
    attention_distance,
    entropy,
    head_statistics,
    record_attention,
)

# By the stack and the kind of attention in a layer's name.
STACKS = {
    ("encoder", "self_attention"): "encoder",
    ("decoder", "self_attention"): "decoder-self",
    ("decoder", "cross_attention"): "decoder-cross",
}


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The weights of one layer for one row of a batch.

    Attributes:
        stack: `encoder`, `decoder-self` or `decoder-cross`.
        layer: its place in the stack, from 0.
        weights: `(heads, query, key)`.
    """

    stack: str
    layer: int
    weights: Tensor

    @property
    def reads_itself(self) -> bool:
        """Whether queries and keys are the same tokens."""
        return not self.stack.endswith("cross")


@dataclass(frozen=True, eq=False)
class MapStatistics:
    """Means over the queries of a map, `(heads,)` each; definitions in `probes.HeadStatistics`.

    Attributes:
        entropy: in bits.
        distance: from the place of a query to that of a key, in tokens.
        previous_token: NaN where queries and keys are different tokens.
        diagonal: NaN where queries and keys are different tokens.
    """

    entropy: Tensor
    distance: Tensor
    previous_token: Tensor
    diagonal: Tensor


def attention_maps(
    model: nn.Module, forward: Callable[[], object], *, row: int = 0
) -> list[AttentionMap]:
    """The map of every attention layer, by stack and layer; empty for a model without attention.

    Args:
        model: in evaluation mode.
        forward: runs it on a batch. Where it goes step by step over a cache, the queries of all
            steps make one map, and keys that a step had not yet got weigh nothing in it.
        row: the row of the batch.
    """
    with torch.no_grad(), record_attention(model) as records:
        forward()
    steps: dict[str, list[Tensor]] = {}
    for record in records:
        steps.setdefault(record.name, []).append(record.weights[row])
    maps = [AttentionMap(*_place(name), _joined(found)) for name, found in steps.items()]
    stacks = list(dict.fromkeys(found.stack for found in maps))
    return sorted(maps, key=lambda found: (stacks.index(found.stack), found.layer))


def map_statistics(attention: AttentionMap) -> MapStatistics:
    """How spread out the heads of a map are, and how far and where they look."""
    weights = attention.weights[None]
    nowhere = torch.full((weights.shape[1],), math.nan)
    previous_token, diagonal = nowhere, nowhere
    if attention.reads_itself:
        found = head_statistics(AttentionRecord(attention.stack, weights, None, weights))
        previous_token, diagonal = found.previous_token, found.diagonal
    return MapStatistics(
        entropy=entropy(weights)[0].mean(-1) / math.log(2),
        distance=attention_distance(weights)[0].mean(-1),
        previous_token=previous_token,
        diagonal=diagonal,
    )


def _place(name: str) -> tuple[str, int]:
    """Stack and layer of a module such as `model.decoder.blocks.1.cross_attention`."""
    stack, _, layer, kind = name.split(".")[-4:]
    return STACKS[stack, kind], int(layer)


def _joined(steps: Sequence[Tensor]) -> Tensor:
    """The queries of all steps, `(heads, query, key)`, with as many keys as the longest has."""
    n_keys = max(step.shape[-1] for step in steps)
    return torch.cat([pad(step, (0, n_keys - step.shape[-1])) for step in steps], dim=1)

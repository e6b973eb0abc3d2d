"""A look into a trained model, for a tracker: pictures of attention and positions.

The pictures are plain heat maps that cost milliseconds; `ablate attention` and `ablate positions`
draw the same with labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ablations.attention import example_maps, has_attention
from ablations.attention_examples import Choice, Example
from ablations.finished import open_run
from ablations.position_tables import module_tables
from ablations.task_runs.base import TaskRun
from lightning_modules.attention_maps import AttentionMap, map_statistics
from lightning_modules.position_tables import PositionTable

DARK, LIGHT, RED = (8, 48, 107), (255, 255, 255), (103, 0, 31)
SMALLEST = 160  # pixels of a map's longer side, at least
GAP = 8  # pixels between two maps


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """A heat map, `(height, width, 3)` of bytes, and what it shows."""

    pixels: np.ndarray
    caption: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Inspection:
    """What was found in a model.

    Attributes:
        values: `attention/STACK/entropy_bits` and `attention/STACK/distance` (tokens), means over
            heads and layers in one example.
        pictures: `attention/STACK`, and `positions/STACK` where a scheme has a table.
    """

    values: dict[str, float] = field(default_factory=dict)
    pictures: dict[str, Picture] = field(default_factory=dict)


def inspect_run(identity: str, *, runs_dir: Path) -> Inspection:
    """Look into a finished run, from its weights.

    Raises:
        ValueError: it has no weights, or its data are not there.
    """
    run = open_run(identity, runs_dir=runs_dir)
    return inspect_model(run.module, run.read_data(cache_dir=runs_dir / ".cache"))


def inspect_model(module: Any, part: TaskRun) -> Inspection:
    """Have a trained model read the first test example; some have no attention to see."""
    found = Inspection()
    module = module.cpu().eval()
    for stack, table in module_tables(module, part.config).items():
        found.pictures[f"positions/{stack}"] = _draw_positions(table)
    if not has_attention(module):
        return found
    example, maps = example_maps(part, module, Choice())
    for stack in dict.fromkeys(one.stack for one in maps):
        layers = [one for one in maps if one.stack == stack]
        statistics = [map_statistics(layer) for layer in layers]
        for name in ("entropy", "distance"):
            mean = torch.stack([getattr(one, name) for one in statistics]).mean()
            unit = "entropy_bits" if name == "entropy" else name
            found.values[f"attention/{stack}/{unit}"] = float(mean)
        found.pictures[f"attention/{stack}"] = _draw_attention(layers, example)
    return found


def _draw_attention(layers: Sequence[AttentionMap], example: Example) -> Picture:
    largest = max(float(layer.weights.max()) for layer in layers)
    rows = [
        _joined([_colored(head.numpy() / largest) for head in layer.weights], axis=1)
        for layer in layers
    ]
    labels = [f"{side}: {' '.join(words)}" for side, words in example.labels.items()]
    caption = (
        f"{example.title}. A row of maps for each layer, a column for each head; queries go down, "
        f"keys across; darkest is {largest:.2f}. {'. '.join(labels)}"
    )
    return Picture(pixels=_joined(rows, axis=0), caption=caption)


def _draw_positions(table: PositionTable) -> Picture:
    values = table.values.numpy()
    largest = float(np.abs(values).max()) or 1.0
    caption = (
        f"{table.kind}: {table.axes[0]} {int(table.rows[0])} to {int(table.rows[-1])} down, "
        f"{table.axes[1]} across; blue is positive, red negative, darkest {largest:.3g}"
    )
    return Picture(pixels=_colored(values / largest), caption=caption)


def _colored(values: np.ndarray) -> np.ndarray:
    """From -1 (red) over 0 (white) to 1 (blue), each number a square of whole pixels."""
    ends = np.where(values[..., None] < 0, np.array(RED), np.array(DARK))
    share = np.abs(values)[..., None]
    pixels = (share * ends + (1 - share) * np.array(LIGHT)).round().astype(np.uint8)
    size = max(1, -(-SMALLEST // max(values.shape)))
    return pixels.repeat(size, axis=0).repeat(size, axis=1)


def _joined(pictures: Sequence[np.ndarray], *, axis: int) -> np.ndarray:
    shape = list(pictures[0].shape)
    shape[axis] = GAP
    gap = np.full(shape, 200, dtype=np.uint8)
    spaced = [part for picture in pictures for part in (gap, picture)][1:]
    return np.concatenate(spaced, axis=axis)

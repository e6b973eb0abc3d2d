"""Attention maps: one figure a stack, layers as rows and heads as columns, tokens as labels.

Tokens are text from data: shown as they stand, never read as formulas. A character that the font of
the picture lacks is a box in the PNG; the SVG and the CSV hold the character.
"""

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.curves import SETTINGS, save

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

INCHES_A_TOKEN, NARROWEST, WIDEST = 0.13, 1.5, 6.0
INCHES_A_LABEL = 0.09
LONGEST_LABEL = 24
COLORS = "Blues"


def attention_figure(
    weights: pd.DataFrame, heads: pd.DataFrame, *, title: str, unit: str = "token"
) -> "Figure":
    """The maps of one stack; darker is more, on one scale from 0 to the largest weight.

    Above each map stand the entropy and the distance of its head, means over the queries.

    Args:
        weights: of one stack, with `layer`, `head`, `query`, `query_label`, `key`, `key_label` and
            `weight`.
        heads: with `layer`, `head`, `entropy_bits` and `distance`.
        title: what is drawn, for the head of the figure.
        unit: what a label is.
    """
    import matplotlib
    from matplotlib.figure import Figure

    layers, columns = (sorted(weights[name].unique()) for name in ("layer", "head"))
    queries, keys = (_labels(weights, side) for side in ("query", "key"))
    width, height = _inches(len(keys)), _inches(len(queries))
    means, largest = heads.set_index(["layer", "head"]), weights["weight"].max()
    with matplotlib.rc_context(SETTINGS):
        size = (len(columns) * (width + 0.2) + 2.0, len(layers) * (height + 0.5) + 1.8)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(layers), len(columns), squeeze=False)
        for row, column in np.ndindex(panels.shape):
            layer, head = layers[row], columns[column]
            panel: Axes = panels[row, column]  # type: ignore[assignment]
            part = weights[(weights["layer"] == layer) & (weights["head"] == head)]
            image, mean = _draw_map(panel, part, largest), means.loc[(layer, head)]
            panel.set_title(
                f"layer {layer}, head {head}\n{mean['entropy_bits']:.2f} bits, "
                f"distance {mean['distance']:.1f}"
            )
            _label(panel, "x", keys if row == len(layers) - 1 else [], width)
            _label(panel, "y", queries if column == 0 else [], height)
        figure.colorbar(image, ax=panels, label="weight", shrink=0.6, aspect=30)
        figure.supxlabel(f"key ({unit})", fontsize="medium")
        figure.supylabel(f"query ({unit})", fontsize="medium")
        figure.suptitle(title, wrap=True)
    return figure


def save_maps(
    weights: pd.DataFrame, heads: pd.DataFrame, *, title: str, unit: str, folder: Path
) -> list[Path]:
    """Draw every stack into `folder`, with its weights beside it; the pictures (PNG) written.

    Args:
        weights: of all stacks, named in `stack`.
        heads: of all stacks; goes to `heads.csv`.
        title: the run and the example.
        unit: what a label is.
        folder: where it all goes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    heads.to_csv(folder / "heads.csv", index=False, lineterminator="\n")
    pictures = []
    for stack, part in weights.groupby("stack", sort=False):
        means = heads[heads["stack"] == stack]
        figure = attention_figure(part, means, title=f"{stack}, {title}", unit=unit)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            pictures.append(save(figure, part, folder / str(stack))[0])
    return pictures


def printable(label: str) -> str:
    """A token as a label of one line: blanks and characters without a shape made visible."""
    shown = "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in label)
    if shown.isspace():
        return "␣" * len(shown)
    return shown if len(shown) <= LONGEST_LABEL else f"{shown[: LONGEST_LABEL - 1]}…"


def _draw_map(panel: "Axes", part: pd.DataFrame, largest: float) -> "AxesImage":
    grid = part.pivot(index="query", columns="key", values="weight")
    return panel.imshow(grid, cmap=COLORS, vmin=0, vmax=largest, aspect="auto")


def _labels(weights: pd.DataFrame, side: str) -> "Sequence[str]":
    tokens = weights.drop_duplicates(side).sort_values(side)
    return [printable(label) for label in tokens[f"{side}_label"]]


def _inches(tokens: int) -> float:
    return min(max(INCHES_A_TOKEN * tokens, NARROWEST), WIDEST)


def _label(panel: "Axes", axis: str, labels: "Sequence[str]", inches: float) -> None:
    """Put labels at the ticks, every second or third one where there is no room for all."""
    every = math.ceil(len(labels) * INCHES_A_LABEL / inches) or 1
    set_ticks = panel.set_xticks if axis == "x" else panel.set_yticks
    rotation = 90 if axis == "x" else 0
    set_ticks(range(0, len(labels), every), labels[::every], fontsize=6, rotation=rotation)

"""One panel of `analysis.length_curves`: its lines, its bands and what is undefined."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from analysis.lines import draw_line, finish, scale_numbers, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLOSEST = 0.06  # of the panel's width: a length nearer to the last one named is a mark without name
CLOSEST_COUNTED = 0.11  # the same where numbers of sentences stand below


def draw_panel(panel: "Axes", lengths: pd.DataFrame, *, counts: pd.DataFrame | None) -> None:
    """Draw the lines of one panel.

    Args:
        panel: where.
        lengths: the rows of `lengths_frame` of one metric in one place.
        counts: those of the number of sentences, which stands under each length where it is known.
    """
    height = 1.03
    for color, marker, level in styles(lengths["level"]):
        points = lengths[lengths["level"] == level].sort_values("length")
        shown = points[["length", "mean", "low", "high"]]
        draw_line(panel, shown, color=color, marker=marker, name=level)
        nowhere = points.loc[points["undefined"] != "", "length"].tolist()
        if nowhere:
            _cross_out(panel, nowhere, height=height, level=level, color=color)
            height += 0.05
    for trained in lengths["trained"].dropna().unique():
        panel.axvline(trained, color="#555555", linestyle="--", linewidth=1, zorder=0)
    _set_ticks(panel, sorted(set(lengths["length"])), counts)
    panel.set_xlabel(lengths["counts"].iloc[0], fontsize="small")
    finish(panel)


def title_pad(lengths: pd.DataFrame) -> float:
    """Points between a panel and its title: a row for each line that is undefined somewhere."""
    return 6 + 9 * lengths.loc[lengths["undefined"] != "", "level"].nunique()


def _cross_out(
    panel: "Axes", lengths: list[float], *, height: float, level: str, color: str
) -> None:
    """A row of crosses over the panel, behind the name of the line."""
    across = panel.get_xaxis_transform()
    heights = [height] * len(lengths)
    panel.scatter(
        lengths, heights, marker="x", color=color, s=16, transform=across, clip_on=False, zorder=3
    )
    panel.annotate(
        level,
        (lengths[0], height),
        xycoords=across,
        xytext=(-6, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize="x-small",
        color=color,
        annotation_clip=False,
    )


def _set_ticks(panel: "Axes", numbers: list[float], counts: pd.DataFrame | None) -> None:
    logarithmic = scale_numbers(panel, numbers)
    n = {} if counts is None else counts.groupby("length")["mean"].max().to_dict()
    places = [math.log2(x) for x in numbers] if logarithmic else numbers
    named = _with_room(places, closest=CLOSEST_COUNTED if n else CLOSEST)
    texts = [f"{x:g}\n({n[x]:.0f})" if n.get(x, math.nan) > 0 else f"{x:g}" for x in numbers]
    labels = [text if index in named else "" for index, text in enumerate(texts)]
    small = len(named) > 6 or n
    panel.set_xticks(numbers, labels, fontsize="x-small" if small else "small")


def _with_room(places: Sequence[float], *, closest: float) -> set[int]:
    """Which of the growing places can be named, from the left, none nearer to another."""
    named: list[int] = []
    for index, place in enumerate(places):
        if not named or place - places[named[-1]] >= closest * (places[-1] - places[0]):
            named.append(index)
    return set(named)

"""The lines of figures with an axis of numbers: means, bands, and a logarithmic scale at need."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import pandas as pd

from analysis.curves import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOG_FROM = 4.0  # ratio of largest to smallest number from which their axis is logarithmic
MARKERS = "os^vDPX"


def styles(names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Colour, marker and name of each line, a name once, in their order."""
    return zip(cycle(PALETTE), cycle(MARKERS), dict.fromkeys(names), strict=False)


def draw_line(panel: "Axes", points: pd.DataFrame, *, color: str, marker: str, name: str) -> None:
    """Draw one line and its band.

    Args:
        panel: where.
        points: the places on the axis in the first column, in growing order; `mean`, and its
            interval `low` to `high`.
        color: of line and band.
        marker: of each mean.
        name: in the legend.
    """
    x, low, high = points.iloc[:, 0], points["low"], points["high"]
    panel.plot(
        x, points["mean"], color=color, marker=marker, markersize=4, linewidth=1.2, label=name
    )
    if low.notna().sum() > 1:
        panel.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)
    else:  # a band of one place has no width
        panel.vlines(x, low, high, color=color, alpha=0.5, linewidth=3)


def scale_numbers(panel: "Axes", numbers: Sequence[float]) -> bool:
    """Make the axis of these growing numbers logarithmic where they span far; whether it is."""
    if numbers[0] <= 0 or numbers[-1] / numbers[0] < LOG_FROM:
        return False
    panel.set_xscale("log", base=2)
    panel.minorticks_off()
    return True


def finish(panel: "Axes") -> None:
    """Light lines across, behind everything."""
    panel.grid(axis="y", color="#dddddd", linewidth=0.6)
    panel.set_axisbelow(True)

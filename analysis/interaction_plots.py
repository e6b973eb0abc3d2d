"""The interaction plot of a factorial study: parallel lines are choices that don't interact."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.curves import PANELS_A_ROW, SETTINGS, save
from analysis.effects import Effects
from analysis.lines import styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def interaction_figure(effects: Effects) -> "Figure":
    """One panel for each pair of axes: the mean over seeds and other axes, with 95% intervals.

    Raises:
        ValueError: no run has a number yet.
    """
    import matplotlib
    from matplotlib.figure import Figure

    means = effects.means
    if not means["mean"].notna().any():
        raise ValueError(f"{effects.study}: no run has a number to draw; run the study first")
    panels = list(means.groupby(["axis", "given"], sort=False))
    columns = min(PANELS_A_ROW, len(panels))
    lines = -(-len(panels) // columns)
    with matplotlib.rc_context(SETTINGS):
        size = (max(4.2, 3.3 * columns), 2.9 * lines + 0.7)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(lines, columns, squeeze=False, sharey=True).flatten()
        for panel, ((axis, given), rows) in zip(grid, panels, strict=False):
            _draw(panel, rows, axis=str(axis), given=str(given))
        for panel in grid[len(panels) :]:
            panel.set_visible(False)
        figure.supylabel(f"{effects.metric} on {effects.split}", fontsize="medium")
        figure.suptitle(
            f"{effects.study}: means with 95% intervals over seeds; parallel: no interaction"
        )
    return figure


def save_interactions(effects: Effects, *, folder: Path) -> Path:
    """Write `interactions` as PNG, SVG and the frame behind it; the picture (PNG)."""
    return save(interaction_figure(effects), effects.means, folder / "interactions")[0]


def _draw(panel: "Axes", rows: pd.DataFrame, *, axis: str, given: str) -> None:
    ticks = list(dict.fromkeys(rows["given_level"].astype(str)))
    drawn = list(styles(rows["level"].astype(str)))
    for index, (color, marker, level) in enumerate(drawn):
        members = rows[rows["level"].astype(str) == level]
        places = [ticks.index(str(name)) for name in members["given_level"]]
        # Beside each other, so that intervals don't cover one another.
        shifted = [place + 0.08 * (index - (len(drawn) - 1) / 2) for place in places]
        reach = [members["mean"] - members["low"], members["high"] - members["mean"]]
        panel.errorbar(
            shifted,
            members["mean"],
            yerr=reach,
            color=color,
            marker=marker,
            linestyle=("-", "--", ":", "-.")[index % 4],
            markersize=4,
            linewidth=1.2,
            capsize=2,
            label=level,
        )
    panel.set_xticks(range(len(ticks)), ticks)
    panel.set_xlim(-0.4, len(ticks) - 0.6)
    panel.set_xlabel(given)
    panel.legend(title=axis, frameon=False, fontsize="small", title_fontsize="small")

"""Where in a factorial study training diverges: a map of the share of runs that did.

Pure frame first (`divergence_frame`), drawing second (`divergence_figure`).
"""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.curves import SETTINGS
from analysis.frames import StudyView, study_cells
from analysis.responses import numbers_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = "Greys"
HALF = 0.5  # from this share on the cell is dark, and what stands in it light


def divergence_frame(frame: pd.DataFrame, study: StudyView) -> pd.DataFrame:
    """Diverged runs of every combination of levels, over the seeds.

    Args:
        frame: the ledger's tidy frame.
        study: the plan.

    Returns:
        One row per combination in the plan's order: `row` and `column` (levels as text), `diverged`
        runs of `n` that have ended; missing ones are not among them. Empty where nothing diverged,
        and unless every combination of two or more axes was planned.
    """
    columns = ["row", "column", "diverged", "n"]
    cells = study_cells(frame, study)
    combinations = cells.groupby(list(study.axes), sort=False)
    complete = 1
    for levels in study.axes.values():
        complete *= len(levels)
    factorial = len(study.axes) > 1 and combinations.ngroups == complete
    if not factorial or not (cells["status"] == "diverged").any():
        return pd.DataFrame(columns=columns)
    across = column_axis(study)
    rows = []
    for _, members in combinations:
        first, ended = members.iloc[0], members[members["status"] != "missing"]
        others = [_level(axis, first[axis]) for axis in study.axes if axis != across]
        diverged = int((ended["status"] == "diverged").sum())
        rows.append((", ".join(others), str(first[across]), diverged, len(ended)))
    return pd.DataFrame(rows, columns=columns)


def column_axis(study: StudyView) -> str:
    """The axis whose levels are the columns: the one of numbers with most levels, or the last."""
    return numbers_axis(study) or list(study.axes)[-1]


def divergence_figure(divergence: pd.DataFrame, study: StudyView) -> "Figure":
    """The share of diverged runs in shades of grey, with the counts written in.

    Args:
        divergence: from `divergence_frame`.
        study: the plan.
    """
    import matplotlib
    from matplotlib.figure import Figure

    rows, columns = (list(dict.fromkeys(divergence[name])) for name in ("row", "column"))
    with matplotlib.rc_context(SETTINGS):
        size = (2.6 + 0.9 * len(columns) + 0.06 * max(map(len, rows)), 1.3 + 0.42 * len(rows))
        figure = Figure(figsize=size, layout="constrained")
        panel = figure.subplots()
        counts = divergence.pivot(index="row", columns="column").loc[rows]
        diverged, n = (counts[name][columns].to_numpy(float) for name in ("diverged", "n"))
        shares = diverged / n
        image = panel.imshow(shares, cmap=COLORS, vmin=0, vmax=1, aspect="auto")
        for (y, x), share in np.ndenumerate(shares):
            color = "white" if share >= HALF else "black"
            text = f"{diverged[y, x]:.0f} of {n[y, x]:.0f}"
            panel.text(x, y, text, color=color, ha="center", va="center")
        panel.set_xticks(range(len(columns)), columns)
        panel.set_yticks(range(len(rows)), rows)
        panel.set_xlabel(column_axis(study))
        figure.colorbar(image, label="share of runs that diverged")
        figure.suptitle(f"{study.name}: diverged runs")
    return figure


def _level(axis: str, level: object) -> str:
    return f"{axis.rpartition('.')[2]} {level}"

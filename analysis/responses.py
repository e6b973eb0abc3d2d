"""A metric against an axis of numbers: one line per level of a second axis, a panel of a third.

For factorial studies with an axis of numbers, such as `data.lookback: [24, 168, 336]`. Pure frame
first (`responses_frame`), drawing second (`responses_figure`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.curves import PANELS_A_ROW, SETTINGS
from analysis.frames import StudyView, study_cells
from analysis.lines import draw_line, finish, scale_numbers, styles
from analysis.metrics import metric_of
from analysis.statistics import t_estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INCHES_A_LETTER = 0.1  # of a title, at least


def numbers_axis(study: StudyView) -> str | None:
    """The axis of numbers with most levels, three or more; None where there is none."""
    counts = {
        axis: len(levels)
        for axis, levels in study.axes.items()
        if len(levels) > 2 and all(_is_number(level) for level in levels)
    }
    return max(counts, key=counts.__getitem__) if counts else None


def responses_frame(frame: pd.DataFrame, study: StudyView) -> pd.DataFrame:
    """What a study of two or three axes measured along its axis of numbers.

    Args:
        frame: the ledger's tidy frame.
        study: the plan.

    Returns:
        One row per number x line x panel: `number`, `line` and `panel` (levels as text; "" where
        the study has no such axis), `mean` with its t interval `low` to `high` over the seeds,
        `n` finished seeds of `planned` ones. Empty unless every combination of the levels of two
        or three axes was planned, one of them of numbers.
    """
    columns = ["number", "line", "panel", "mean", "low", "high", "n", "planned"]
    across = numbers_axis(study)
    others = [axis for axis in study.axes if axis != across]
    if across is None or not 1 <= len(others) <= 2:
        return pd.DataFrame(columns=columns)
    cells = study_cells(frame, study)
    line, panel = _line_and_panel(study, others)
    combinations = cells.groupby([across, *others], sort=False)
    complete = len(study.axes[across]) * len(study.axes[line])
    complete *= len(study.axes[panel]) if panel else 1
    if combinations.ngroups < complete:
        return pd.DataFrame(columns=columns)
    rows = []
    for _, members in combinations:
        first, found = members.iloc[0], t_estimate(members["value"].dropna())
        rows.append(
            {
                "number": float(first[across]),
                "line": str(first[line]),
                "panel": f"{panel} {first[panel]}" if panel else "",
                "mean": found.mean,
                "low": found.low,
                "high": found.high,
                "n": found.n,
                "planned": len(members),
            }
        )
    return pd.DataFrame(rows, columns=columns)


def responses_figure(responses: pd.DataFrame, study: StudyView, *, signature: str) -> "Figure":
    """Means with the 95% interval over seeds, against the numbers.

    Args:
        responses: from `responses_frame`.
        study: the plan.
        signature: what the metric's values are in.
    """
    import matplotlib
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(responses["panel"]))
    columns = min(PANELS_A_ROW, len(names))
    rows = -(-len(names) // columns)
    counts = sorted(set(responses["n"]))
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    title = f"{study.name}: mean with 95% interval, n = {seeds} seeds"
    with matplotlib.rc_context(SETTINGS):
        size = (max(INCHES_A_LETTER * len(title), 3.0 * columns), 2.9 * rows + 0.9)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flatten()
        for panel, name in zip(panels, names, strict=False):
            _draw(panel, responses[responses["panel"] == name])
            panel.set_title(name)
        for panel in panels[len(names) :]:
            panel.set_visible(False)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
        figure.supylabel(
            f"{study.metric} on {study.split}: {signature}\n({metric_of(study.metric).direction})",
            fontsize="medium",
        )
        for panel in panels[len(names) - columns : len(names)]:
            panel.set_xlabel(str(numbers_axis(study)))
        figure.suptitle(title)
    return figure


def _is_number(level: Any) -> bool:
    return isinstance(level, int | float) and not isinstance(level, bool)


def _line_and_panel(study: StudyView, others: Sequence[str]) -> tuple[str, str]:
    """The axis that makes the lines: one of names, where there is one; and that of the panels."""
    named = [axis for axis in others if not all(_is_number(level) for level in study.axes[axis])]
    line = (named or list(others))[0]
    return line, next((axis for axis in others if axis != line), "")


def _draw(panel: "Axes", responses: pd.DataFrame) -> None:
    for color, marker, name in styles(responses["line"]):
        points = responses[responses["line"] == name].sort_values("number")
        shown = points[["number", "mean", "low", "high"]]
        draw_line(panel, shown, color=color, marker=marker, name=name)
    numbers = sorted(set(responses["number"]))
    scale_numbers(panel, numbers)
    panel.set_xticks(numbers, [f"{number:g}" for number in numbers])
    finish(panel)

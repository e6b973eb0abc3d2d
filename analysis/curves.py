"""Figures of a study: the effects of its levels, and its learning curves.

Pure frames first (`effects_frame`, `curves_frame`), drawing second; `save` puts the frame behind
a figure beside it. Colours are the Okabe-Ito palette ("Color Universal Design", 2008), which all
common kinds of colour vision tell apart; markers and dashes say the same again in grey print.
No window is opened, and matplotlib's settings are left as they were.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.frames import StudyView, baseline_arm, has_level, pairs
from analysis.metrics import metric_of
from analysis.rows import Row
from analysis.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
SETTINGS: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "ablate",
}
MARKS = {
    "better": ("#0072B2", "^"),
    "worse": ("#D55E00", "v"),
    "higher": ("#0072B2", "^"),
    "lower": ("#D55E00", "v"),
    "not distinguishable": ("#555555", "o"),
    "n too small to tell": ("#999999", "s"),
}
PANELS_A_ROW = 3
WIDE = 20.0  # ratio of the largest effect to the lower quartile from which small ones would vanish


def effects_frame(table: Table) -> pd.DataFrame:
    """The level rows of a table, in its order, without the baseline rows."""
    baseline = [row.is_baseline for row in table.rows]
    return table.frame.loc[[not flag for flag in baseline]].reset_index(drop=True)


def effects_figure(table: Table) -> "Figure":
    """Forest plot: the paired difference of every level with its 95% interval.

    The line at 0 is the baseline. A level without any number keeps its row and says why. Where some
    effects are far larger than others, the scale is linear around 0 and logarithmic beyond.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    rows = [row for row in table.rows if not row.is_baseline]
    heads = list(dict.fromkeys(row.axis for row in rows))
    height = 1.6 + 0.26 * (len(rows) + len(heads))
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(8, height), layout="constrained")
        axes = figure.subplots()
        axes.axvline(0, color="black", linewidth=1)
        axes.margins(x=0.2)  # room for the words of a row without a number
        ticks = _draw_effects(axes, table, rows)
        beyond = _widen(axes, rows)
        axes.set_yticks(range(len(ticks)), ticks)
        axes.set_ylim(len(ticks) - 0.5, -0.5)
        for label in axes.get_yticklabels():
            label.set_fontweight("bold" if label.get_text().startswith(tuple(heads)) else "normal")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        direction = metric_of(table.metric).direction
        axes.set_xlabel(
            f"Δ {table.metric} on {table.split}, paired with the baseline\n({direction}){beyond}"
        )
        figure.suptitle(f"{table.study}: Δ with 95% interval over seeds\n{table.headline}")
        used = {row.verdict.value for row in rows if row.verdict}
        handles = [
            Line2D([], [], color=color, marker=marker, label=words)
            for words, (color, marker) in MARKS.items()
            if words in used
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles) or 1)
    return figure


def curves_frame(
    frame: pd.DataFrame, study: StudyView, *, runs_dir: Path, column: str = "validation_loss"
) -> pd.DataFrame:
    """The learning curves behind a study, one row per axis x level x seed x step.

    Args:
        frame: the ledger's tidy frame, asked for the status of the runs.
        study: the plan.
        runs_dir: the folder with `<id>/learning_curve.csv`; a run without one is left out.
        column: the column of those files, such as `validation_loss` or `train_loss`.

    Returns:
        `axis`, `level`, `seed`, `status`, `step` (updates) and `value`. In a factorial study the
        contexts of a seed are averaged; a seed is "diverged" when any of its runs is.

    Raises:
        ValueError: a file without `step` or `column`, naming it.
    """
    status = frame.drop_duplicates("run").set_index("run")["status"]
    cells = study.expected.assign(value=math.nan, status=study.expected["id"].map(status))
    curves = {run: _read_curve(runs_dir, run, column) for run in study.expected["id"]}
    parts = []
    for axis, levels in study.axes.items():
        paired = pairs(cells, study, axis)
        shown = pd.concat([baseline_arm(cells, paired), paired])
        for level in levels:
            members = shown[has_level(shown, axis, level)]
            found = [
                curve.assign(seed=seed, diverged=state == "diverged")
                for run, seed, state in members[["id", "seed", "status"]].itertuples(index=False)
                if (curve := curves[run]) is not None
            ]
            if found:
                parts.append(_by_seed(pd.concat(found)).assign(axis=axis, level=str(level)))
    columns = ["axis", "level", "seed", "status", "step", "value"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def curves_figure(curves: pd.DataFrame, *, title: str, label: str) -> "Figure":
    """One panel per axis: the mean over seeds of every level, and the range over seeds as a band.

    Seeds that diverged are in neither: each has a thin line of its own that ends in a cross.

    Args:
        curves: from `curves_frame`.
        title: what is drawn, for the head of the figure.
        label: name and unit of the value.

    Raises:
        ValueError: there is no curve to draw.
    """
    import matplotlib
    from matplotlib.figure import Figure

    if curves.empty:
        raise ValueError(f"{title}: no learning curve is there yet; run the study first")
    names = list(dict.fromkeys(curves["axis"]))
    columns = min(PANELS_A_ROW, len(names))
    lines = -(-len(names) // columns)
    with matplotlib.rc_context(SETTINGS):
        size = (max(5.6, 3.3 * columns), 2.7 * lines + 0.8)  # wide enough for its title
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(lines, columns, squeeze=False, sharex=True).flatten()
        for panel, name in zip(panels, names, strict=False):
            _draw_curves(panel, curves[curves["axis"] == name])
            panel.set_title(name)
        for panel in panels[len(names) :]:
            panel.set_visible(False)
        for panel in panels[len(names) - columns : len(names)]:
            panel.tick_params(labelbottom=True)
        figure.supylabel(label, fontsize="medium")
        figure.supxlabel("updates", fontsize="medium")
        figure.suptitle(
            f"{title}\nmean and range over finished seeds; thin lines to a cross: diverged ones"
        )
    return figure


def save(figure: "Figure", frame: pd.DataFrame, stem: Path) -> list[Path]:
    """Write `stem`.png, `stem`.svg and, with the frame behind the figure, `stem`.csv."""
    import matplotlib

    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg", "csv")]
    with matplotlib.rc_context(SETTINGS):
        figure.savefig(files[0], dpi=160)
        figure.savefig(files[1], metadata={"Date": None})
    frame.to_csv(files[2], index=False, lineterminator="\n")
    return files


def _widen(axes: "Axes", rows: list[Row]) -> str:
    """Make the scale logarithmic far from 0 where that is needed; what to say of it."""
    effects = [row.difference for row in rows if row.difference and row.difference.n]
    reach = sorted(np.nanmax(np.abs([effect.mean, effect.low, effect.high])) for effect in effects)
    reach = [size for size in reach if size > 0]
    if not reach or reach[-1] < WIDE * (small := reach[len(reach) // 4]):
        return ""
    unit = 10.0 ** math.floor(math.log10(small))
    linear = next(step * unit for step in (1, 2, 5, 10) if step * unit >= small)
    axes.set_xscale("symlog", linthresh=linear, linscale=2)
    axes.axvspan(-linear, linear, color="#f2f2f2", linewidth=0, zorder=0)
    shown = axes.get_xlim()
    sizes = [linear / 2, linear]
    while sizes[-1] < max(map(abs, shown)):
        sizes.append(10 * sizes[-1])
    axes.set_xticks([sign * size for size in (0, *sizes) for sign in (-1, 1)])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlim(shown)
    return f"\nlogarithmic beyond the grey band, from {linear:g} on"


def _draw_effects(axes: "Axes", table: Table, rows: list[Row]) -> list[str]:
    """Draw one line per row and return the tick labels, heads of axes included."""
    ticks: list[str] = []
    for index, row in enumerate(rows):
        if index == 0 or row.axis != rows[index - 1].axis:
            ticks.append(f"{row.axis} (against {table.baseline[row.axis]})")
        position = len(ticks)
        ticks.append(str(row.level))
        _draw_effect(axes, row, position)
        counts = f"n = {row.seeds_compared} of {row.seeds_planned}"
        diverged = f", {row.diverged} diverged" if row.diverged else ""
        axes.annotate(
            f"{counts}{diverged}",
            (1.01, position),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize="small",
            annotation_clip=False,
        )
    return ticks


def _draw_effect(axes: "Axes", row: Row, position: int) -> None:
    words = row.verdict.value if row.verdict else ""
    if words not in MARKS or row.difference is None or row.difference.n == 0:
        axes.text(0, position, f" {row.verdict_text}", va="center", fontsize="small", color="#555")
        return
    color, marker = MARKS[words]
    axes.plot([row.difference.low, row.difference.high], [position] * 2, color=color, linewidth=1.5)
    axes.plot(row.difference.mean, position, color=color, marker=marker, markersize=5)


def _read_curve(runs_dir: Path, run: str, column: str) -> pd.DataFrame | None:
    file = runs_dir / run / "learning_curve.csv"
    if not file.is_file():
        return None
    curve = pd.read_csv(file)
    for name in ("step", column):
        if name not in curve.columns:
            raise ValueError(f"{file}: no column {name!r}; there are {', '.join(curve.columns)}")
    return curve[["step", column]].rename(columns={column: "value"}).dropna()


def _by_seed(curves: pd.DataFrame) -> pd.DataFrame:
    diverged = curves.groupby("seed")["diverged"].any()
    means = curves.groupby(["seed", "step"], as_index=False)["value"].mean()
    return means.assign(
        status=means["seed"].map(diverged).map({True: "diverged", False: "finished"})
    )


def _draw_curves(panel: "Axes", curves: pd.DataFrame) -> None:
    import seaborn

    levels = list(dict.fromkeys(curves["level"]))
    colors = {level: PALETTE[index % len(PALETTE)] for index, level in enumerate(levels)}
    finished = curves[curves["status"] == "finished"]
    seaborn.lineplot(
        finished,
        x="step",
        y="value",
        hue="level",
        style="level",
        hue_order=levels,
        style_order=levels,
        palette=colors,
        errorbar=("pi", 100),
        ax=panel,
    )
    diverged = curves[curves["status"] == "diverged"]
    # Diverged seeds end at any height: the finished ones set the scale, where there are some.
    measured = (finished if len(finished) else diverged)["value"]
    margin = 0.05 * (measured.max() - measured.min()) or 0.1
    bottom, top = min(panel.get_ylim()[0], measured.min() - margin), measured.max() + margin
    for (level, _), curve in diverged.groupby(["level", "seed"]):
        steps, values = curve["step"].to_numpy(), curve["value"].clip(upper=top).to_numpy()
        panel.plot(steps, values, color=colors[level], linewidth=0.7)
        panel.plot(steps[-1], values[-1], color=colors[level], marker="x", clip_on=False)
    panel.set_ylim(bottom, top)
    panel.set_xlabel("")
    panel.set_ylabel("")
    panel.legend(title=None, frameon=False, fontsize="small")

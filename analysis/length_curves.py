"""A metric against the evaluated length, trained and beyond: one line per level of an axis.

Pure frame first (`lengths_frame`), drawing second (`lengths_figure`). The frames of several studies
one under another make one figure. Colours and markers are those of `analysis.lines`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from analysis.curves import PANELS_A_ROW, SETTINGS
from analysis.frames import StudyView, baseline_arm, has_level, pairs, per_seed
from analysis.length_panels import draw_panel, title_pad
from analysis.metrics import metric_of
from analysis.statistics import t_estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class LengthKind:
    """What the lengths of a task are: what they count, and which setting is the trained one."""

    counts: str
    trained: str


KINDS = {
    "sequences": LengthKind("items", "data.train_max"),
    "forecasting": LengthKind("rows of the past", "data.lookback"),
    "language_modeling": LengthKind("tokens", "data.context_length"),
    "translation": LengthKind("words of the source, up to", "data.train_max_source_words"),
}
COMPANIONS = {
    "exact_match": ("token_accuracy",),
    "token_accuracy": ("exact_match",),
    "bleu": ("chrf", "loss"),
}
COUNT = "sentences"
COLUMNS = (
    "study",
    "counts",
    "split",
    "panel",
    "axis",
    "level",
    "metric",
    "signature",
    "trained",
    "length",
    "mean",
    "low",
    "high",
    "n",
    "planned",
    "undefined",
)
MOST_SIGNATURE = 40  # characters that fit beside a panel
Lines = dict[str, pd.DataFrame]  # the planned runs of each level


def lengths_frame(frame: pd.DataFrame, study: StudyView) -> pd.DataFrame:
    """What a study measured at each length.

    An axis of the data, such as `data.task`, makes panels; every other one makes lines, in a panel
    of its own for each level of the data's axes. Contexts of a seed that differ in yet another axis
    are averaged.

    Args:
        frame: the ledger's tidy frame.
        study: the plan.

    Returns:
        One row per split x panel x axis x level x metric x length (`COLUMNS`): the `mean` over `n`
        finished seeds of `planned` ones with its t interval `low` to `high`, and why some of the
        runs are `undefined` there ("" where they are defined). `trained` is the longest trained
        length, missing where there is no limit. Empty where nothing was measured by length.
    """
    known = frame[frame["run"].isin(study.expected["id"]) & frame["length"].notna()]
    rows = [
        {"study": study.name, "panel": panel, "axis": axis, **found}
        for axis, panel, lines in _panels(study)
        for found in _panel_rows(known, lines)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def lengths_figure(lengths: pd.DataFrame, *, metrics: Sequence[str]) -> "Figure":
    """Means with the 95% band over seeds; a dashed line where training ends.

    A cross over a panel, in the row of a line's name, is a length at which its runs are undefined.

    Args:
        lengths: from `lengths_frame`, of one study or several.
        metrics: what is drawn, a panel for each study, split and panel of the frame.

    Raises:
        ValueError: none of the metrics was measured by length.
    """
    import matplotlib
    from matplotlib.figure import Figure

    keys = ["study", "split", "panel"]
    places = [*dict.fromkeys(lengths[keys].itertuples(index=False, name=None))]
    drawn = [(place, metric) for metric in metrics for place in places]
    groups = dict(list(lengths.groupby([*keys, "metric"], sort=False)))
    drawn = [(place, metric) for place, metric in drawn if (*place, metric) in groups]
    if not drawn:
        raise ValueError(f"no {' or '.join(metrics)} was measured by length; run the study first")
    columns = len(places) if len(places) <= PANELS_A_ROW else PANELS_A_ROW
    lines = -(-len(drawn) // columns)
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(max(4.6, 3.4 * columns), 2.9 * lines + 1.1), layout="constrained")
        aligned = len(drawn) == len(places) * len(metrics) == lines * columns
        shared: Literal["row", "none"] = "row" if aligned else "none"
        panels = figure.subplots(lines, columns, squeeze=False, sharey=shared).flatten()
        for panel, (place, metric) in zip(panels, drawn, strict=False):
            counts = groups.get((*place, COUNT))
            draw_panel(panel, groups[*place, metric], counts=counts)
            panel.set_title(_title(place, places), pad=title_pad(groups[*place, metric]))
            panel.set_ylabel(_described(groups[*place, metric]), fontsize="small")
        for panel in panels[len(drawn) :]:
            panel.set_visible(False)
        shown = pd.concat([groups[*place, metric] for place, metric in drawn])
        _legend(figure, list(panels[: len(drawn)]), undefined=bool(shown["undefined"].any()))
        figure.suptitle(_headline(shown))
    return figure


def _panels(study: StudyView) -> Iterator[tuple[str, str, Lines]]:
    """Each panel: the axis of its lines, its name, and the planned runs of each level."""
    if not study.axes:
        yield "", "", {"baseline": study.expected}
    of_data = [axis for axis in study.axes if axis.startswith("data.")]
    for axis, levels in study.axes.items():
        if axis in of_data and len(of_data) < len(study.axes):
            continue
        others = [name for name in of_data if name != axis]
        paired = pairs(study.expected.assign(value=math.nan), study, axis)
        shown = pd.concat([baseline_arm(study.expected, paired), paired])
        groups = shown.groupby(others, sort=False) if others else [((), shown)]
        for context, members in groups:
            chosen = zip(others, context, strict=True)
            name = ", ".join(f"{name.partition('.')[2]} {value}" for name, value in chosen)
            yield axis, name or axis, {str(v): members[has_level(members, axis, v)] for v in levels}


def _panel_rows(known: pd.DataFrame, lines: Lines) -> Iterator[dict[str, Any]]:
    """The estimates of each line at every length, split and metric that some line has."""
    known = known[known["run"].isin(pd.concat(lines.values())["id"])]
    if known.empty:
        return
    kind = KINDS.get(known.iloc[0]["task"], LengthKind("length", ""))
    places = known[["split", "length"]].drop_duplicates().sort_values("length", kind="stable")
    for level, members in lines.items():
        own = known[known["run"].isin(members["id"])]
        facts = {"counts": kind.counts, "trained": _trained(own, kind)}
        for split, length in places.itertuples(index=False):
            for metric in known.loc[known["split"] == split, "metric"].dropna().unique():
                here = own[(own["split"] == split) & (own["length"] == length)]
                yield {
                    **facts,
                    "level": level,
                    "split": split,
                    "length": float(length),
                    "metric": metric,
                    **_estimate(here, members, metric),
                }


def _trained(own: pd.DataFrame, kind: LengthKind) -> float:
    """The longest trained length of the runs of a line, which may be what tells lines apart."""
    lengths = own[kind.trained].dropna() if kind.trained in own else ()
    return float(max(lengths, default=0)) or math.nan


def _estimate(here: pd.DataFrame, members: pd.DataFrame, metric: str) -> dict[str, Any]:
    values = here[(here["status"] == "finished") & (here["metric"] == metric)]
    seeds = values["run"].map(members.set_index("id")["seed"])
    found = t_estimate(per_seed(values.assign(seed=seeds), "value"))
    reasons = here["undefined"].dropna().unique() if "undefined" in here else ()
    return {
        "signature": "".join(values["signature"].head(1)),
        "mean": found.mean,
        "low": found.low,
        "high": found.high,
        "n": found.n,
        "planned": members["seed"].nunique(),
        "undefined": "; ".join(reasons),
    }


def _legend(figure: "Figure", panels: Sequence["Axes"], *, undefined: bool) -> None:
    """One legend where all panels have the same lines, else one in each."""
    from matplotlib.lines import Line2D

    found = [panel.get_legend_handles_labels() for panel in panels]
    same = all(labels == found[0][1] for _, labels in found)
    handles, labels = found[0] if same else ([], [])
    marks = [Line2D([], [], color="#555555", linestyle="--", label="longest in training")]
    if undefined:
        marks.append(Line2D([], [], color="#555555", marker="x", linestyle="", label="undefined"))
    figure.legend(
        handles=[*handles, *marks],
        labels=[*labels, *(str(mark.get_label()) for mark in marks)],
        loc="outside lower center",
        ncols=4,
    )
    if not same:
        for panel in panels:
            panel.legend(frameon=False, fontsize="x-small")


def _title(place: tuple[str, str, str], places: Sequence[tuple[str, str, str]]) -> str:
    """What tells a panel from the others: its study, split and name."""
    differing = [len({other[part] for other in places}) > 1 for part in range(2)]
    kept = [part for part, differs in zip(place[:2], differing, strict=True) if differs]
    return "\n".join(filter(None, [*kept, place[2]]))


def _described(lengths: pd.DataFrame) -> str:
    metric = lengths["metric"].iloc[0]
    signature = max(lengths["signature"], key=len)
    described = f"{metric}: {signature}" if len(signature) <= MOST_SIGNATURE else metric
    return f"{described}\n({metric_of(metric).direction})"


def _headline(lengths: pd.DataFrame) -> str:
    counts = sorted(set(lengths.loc[lengths["undefined"] == "", "n"]))
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    names = ", ".join(dict.fromkeys(lengths["study"]))
    plural = "" if counts == [1] else "s"
    return f"{names}: by length, mean with 95% interval, n = {seeds} seed{plural}"

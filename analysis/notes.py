"""The sentences under a comparison table: what it was measured with and what it can't say."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from analysis import statistics
from analysis.bootstrap import ENOUGH
from analysis.code_versions import code_note
from analysis.frames import (
    ON_PURPOSE,
    StudyView,
    has_level,
    planned_levels,
)
from analysis.metrics import metric_of
from analysis.statistics import Estimate, Verdict

if TYPE_CHECKING:
    from analysis.rows import Row


def table_notes(cells: pd.DataFrame, study: StudyView, rows: "Sequence[Row]") -> list[str]:
    """The notes of a table, in reading order.

    Args:
        cells: from `frames.study_cells`.
        study: the plan.
        rows: those that are compared with the baseline.
    """
    verdicts = [row.verdict for row in rows]
    family = [verdict for verdict in verdicts if verdict is not Verdict.undefined]
    candidates = [
        _baseline(cells, study),
        study.tuning,
        _method(study, len(family)),
        _contexts(cells, study),
        _noise(cells, study),
        _bootstrap(rows),
        _fewest_seeds(family),
        _seeds_for_effect(rows, study, comparisons=len(family)),
        _diverged(cells),
        _undefined(cells, study),
        _unscored(cells, study),
        _unplanned(cells, study),
        _on_purpose(study),
        _hardware(cells),
        code_note(cells),
    ]
    return [note for note in candidates if note]


def _baseline(cells: pd.DataFrame, study: StudyView) -> str:
    levels = ", ".join(f"{axis}={study.baseline_level(axis)}" for axis in study.axes)
    steps = _distinct(cells[cells["status"] == "finished"], "steps")
    budget = f"; {int(steps[0])} updates a run" if len(steps) == 1 else ""
    return f"Baseline: {levels or 'the only cell'}{budget}."


def _method(study: StudyView, comparisons: int) -> str:
    if not comparisons:
        return "Interval: 95% Student t over seeds."
    kind = "exact" if len(study.seeds) <= statistics.EXACT_UP_TO else "randomised"
    tests = "1 comparison" if comparisons == 1 else f"{comparisons} comparisons"
    return (
        f"{study.metric}: {metric_of(study.metric).direction}. Intervals: 95% Student t over "
        f"seeds, each row on its own. Δ: paired by seed with the baseline. p: {kind} two-sided "
        f"sign-flip test, Holm-adjusted over {tests}; verdicts at {statistics.ALPHA:.0%}. "
        f"Detectable: the |Δ| these seeds would show {statistics.POWER:.0%} of the time."
    )


def _contexts(cells: pd.DataFrame, study: StudyView) -> str:
    off = {axis: ~has_level(cells, axis, study.baseline_level(axis)) for axis in study.axes}
    if not (pd.DataFrame(off).sum(axis=1) > 1).any():
        return ""
    return (
        "Each Δ compares runs alike in all other axes, averaged over their levels; n counts seeds."
    )


def _noise(cells: pd.DataFrame, study: StudyView) -> str:
    """The noise floor from the runs at the baseline of every axis."""
    at_baseline = pd.Series(True, index=cells.index)
    for axis in study.axes:
        at_baseline &= has_level(cells, axis, study.baseline_level(axis))
    floor = statistics.noise_floor(cells.loc[at_baseline, "value"].dropna())
    if floor.n < 2:
        return ""
    digits = metric_of(study.metric).decimals
    return (
        f"Noise floor: two runs of the baseline differ by up to {floor.difference:.{digits}f} by "
        f"their seeds alone, 95% of the time (standard deviation {floor.sd:.{digits}f} "
        f"[{floor.low:.{digits}f}, {floor.high:.{digits}f}], n = {floor.n})."
    )


def _bootstrap(rows: "Sequence[Row]") -> str:
    """Where the bootstrap interval says something else of 0 than the t interval."""
    tried = [row for row in rows if row.difference and row.difference.n > 1]
    if not tried:
        return ""
    other = [
        f"{row.axis}={row.level} [{row.bootstrap.low:+.4g}, {row.bootstrap.high:+.4g}]"
        for row in tried
        if row.bootstrap and row.difference and _holds_0(row.bootstrap) != _holds_0(row.difference)
    ]
    agreement = f"it disagrees about 0 in {', '.join(other)}" if other else "it agrees about 0"
    few = any(row.difference.n < ENOUGH for row in tried if row.difference)
    narrow = f"; it is too narrow below {ENOUGH} seeds" if other and few else ""
    return f"Cross-check of Δ by BCa bootstrap (95%, in the CSV): {agreement}{narrow}."


def _holds_0(estimate: Estimate) -> bool:
    return estimate.low <= 0 <= estimate.high


def _seeds_for_effect(rows: "Sequence[Row]", study: StudyView, *, comparisons: int) -> str:
    """How many seeds the asked-for difference takes, at the level of Holm's first step."""
    if study.effect is None:
        return ""
    alpha = statistics.ALPHA / max(comparisons, 1)
    needed = [
        f"{row.axis}={row.level} {_seeds_text(study.effect, row.difference.sd, alpha)}"
        for row in rows
        if row.difference and row.difference.n > 1
    ]
    if not needed:
        return ""
    return (
        f"Seeds that would show |Δ| of {study.effect:g} {statistics.POWER:.0%} of the time, as "
        f"noisy as these: {', '.join(needed)}."
    )


def _seeds_text(effect: float, sd: float, alpha: float) -> str:
    try:
        return str(statistics.seeds_needed(effect, sd, alpha=alpha))
    except ValueError:
        return f"over {statistics.MOST_SEEDS:,}"


def _fewest_seeds(verdicts: Sequence[Verdict | None]) -> str:
    if Verdict.too_few_seeds not in verdicts:
        return ""
    fewest = statistics.fewest_seeds(statistics.ALPHA / len(verdicts))
    tests = "1 comparison" if len(verdicts) == 1 else f"{len(verdicts)} comparisons"
    return (
        f"A first verdict over {tests} takes at least {fewest} compared seeds: "
        "the smallest p of n seeds is 2/2^n."
    )


def _diverged(cells: pd.DataFrame) -> str:
    if not (cells["status"] == "diverged").any():
        return ""
    return "Means and Δ are over finished runs; diverged runs are counted, not averaged."


def _undefined(cells: pd.DataFrame, study: StudyView) -> str:
    nowhere = cells[cells["status"] == "undefined"]
    if nowhere.empty:
        return ""
    reasons = "; ".join(dict.fromkeys(nowhere["undefined"]))
    runs = "1 run" if len(nowhere) == 1 else f"{len(nowhere)} runs"
    return f"Undefined on {study.split}, so not measured and not compared: {runs} ({reasons})."


def _unscored(cells: pd.DataFrame, study: StudyView) -> str:
    runs = cells.loc[(cells["status"] == "finished") & cells["value"].isna(), "id"]
    if runs.empty:
        return ""
    return f"Finished without a finite {study.metric} on {study.split}: {', '.join(runs)}."


def _unplanned(cells: pd.DataFrame, study: StudyView) -> str:
    planned = planned_levels(study, cells)
    absent = [
        f"{axis}={level}"
        for axis, levels in study.axes.items()
        for level in levels
        if level != study.baseline_level(axis) and (axis, level) not in planned
    ]
    return f"No planned run, so no row: {', '.join(absent)}." if absent else ""


def _on_purpose(study: StudyView) -> str:
    varied = [axis for axis in study.axes if axis.startswith(ON_PURPOSE)]
    return f"Budget or data differ by design along {', '.join(varied)}." if varied else ""


def _distinct(cells: pd.DataFrame, column: str) -> list:
    return list(cells[column].dropna().unique()) if column in cells else []


def _hardware(cells: pd.DataFrame) -> str:
    kinds = _distinct(cells, "hardware")
    if len(kinds) < 2:
        return ""
    return f"Seconds are from unlike machines: {', '.join(sorted(map(str, kinds)))}."

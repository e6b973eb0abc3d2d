"""The comparison table of a study as data: one row per level, against the baseline, by seed.

`study_table(frame, study)` takes the ledger's tidy frame and a `StudyView` of the plan. It holds
for one-factor-at-a-time and for factorial studies: every cell is paired with the planned cell that
differs from it in the row's axis only, the differences of one seed are averaged over contexts, and
the seeds are the replicates. Means are over finished runs; diverged ones are counted beside them.
`Table.frame` is the same table as a DataFrame, for CSV and for drawing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis import statistics
from analysis.frames import (
    StudyView,
    baseline_arm,
    has_level,
    pairs,
    per_seed,
    planned_levels,
    runs_of,
    study_cells,
)
from analysis.judging import judged
from analysis.notes import table_notes
from analysis.statistics import Estimate, Verdict


@dataclass(frozen=True, kw_only=True)
class Row:
    """One level of one axis.

    Attributes:
        axis: dotted name; "" for the baseline row that all axes share.
        level: the level; None in that shared row.
        mean: the metric over finished runs, with its t interval over seeds.
        difference: paired difference to the baseline; None in baseline rows.
        bootstrap: the same with its BCa interval; None in baseline rows.
        p: sign-flip p; NaN without at least one pair.
        p_adjusted: the same after Holm over the table.
        detectable: smallest difference these seeds would show; infinite when none could be shown.
        verdict: None in baseline rows.
        seeds_compared: seeds with a number to compare (in baseline rows: a finished run).
        seeds_planned: seeds of the study.
        finished: runs that finished; `diverged`, `undefined` and `missing` make it up to the
            planned ones.
        parameters: smallest and largest count among the runs; None when unknown.
        flops_per_target: smallest and largest number of operations of a forward pass among the
            runs, by target token or forecast value; None when unknown.
        seconds: mean wall time of a run; NaN when unknown.
        peak_memory: mean over runs of the most bytes that one held; NaN when unknown.
        runs: ids of all planned runs of the level, missing ones included.
        baseline_runs: ids of the runs that the level is compared with.
    """

    axis: str
    level: Any
    mean: Estimate
    difference: Estimate | None
    bootstrap: Estimate | None = None
    p: float = math.nan
    p_adjusted: float = math.nan
    detectable: float = math.nan
    verdict: Verdict | None = None
    seeds_compared: int
    seeds_planned: int
    finished: int
    diverged: int
    undefined: int
    missing: int
    parameters: tuple[int, int] | None
    flops_per_target: tuple[int, int] | None
    seconds: float
    peak_memory: float
    runs: tuple[str, ...]
    baseline_runs: tuple[str, ...] = ()

    @property
    def is_baseline(self) -> bool:
        """Whether this row is what others are compared with."""
        return self.difference is None

    @property
    def verdict_text(self) -> str:
        """The verdict in words; an arm with divergences says so."""
        words = self.verdict.value if self.verdict else "baseline"
        if self.verdict is Verdict.undefined and self.finished:
            words = "baseline undefined"
        if not self.diverged:
            return words
        count = f"{self.diverged} of {self.diverged + self.finished} diverged"
        return count if self.verdict is Verdict.diverged else f"{words}; {count}"


@dataclass(frozen=True, kw_only=True)
class Table:
    """A comparison table: its rows, what they were measured with, and what is missing.

    Attributes:
        study: name of the study.
        metric: the metric, read on `split` with `signature` ("" when nothing is measured yet).
        baseline: axis -> the level the others are compared with.
        rows: baseline rows and level rows, in the order of the axes.
        comparisons: tests that Holm corrects for: every planned level, finished or not, save
            those that are undefined.
        planned: planned runs.
        missing: ids of the planned runs without a record.
        fill_command: the command that runs them.
        trace_command: the command that says what stands behind a row, once it is given its number.
        notes: sentences a reader needs, in order.
    """

    study: str
    metric: str
    split: str
    signature: str
    baseline: Mapping[str, Any]
    rows: tuple[Row, ...]
    comparisons: int
    planned: int
    missing: tuple[str, ...]
    fill_command: str
    trace_command: str
    notes: tuple[str, ...]

    @property
    def headline(self) -> str:
        """How many runs there are, or are missing and which command fills them."""
        if not self.missing:
            return f"complete: {self.planned} runs"
        missing = f"{len(self.missing)} of {self.planned} runs missing"
        return f"incomplete: {missing}; fill with: {self.fill_command}"

    @property
    def frame(self) -> pd.DataFrame:
        """One row per table row with plain numbers; the columns are named in full."""
        return pd.DataFrame([self._record(row) for row in self.rows])

    def _record(self, row: Row) -> dict[str, Any]:
        return {
            "study": self.study,
            "axis": row.axis,
            "level": row.level,
            "metric": self.metric,
            "split": self.split,
            "signature": self.signature,
            **_estimates(row),
            "p": row.p,
            "p_holm": row.p_adjusted,
            "detectable": row.detectable,
            "seeds_compared": row.seeds_compared,
            "seeds_planned": row.seeds_planned,
            "finished": row.finished,
            "diverged": row.diverged,
            "undefined": row.undefined,
            "missing": row.missing,
            **_ends("parameters", row.parameters),
            **_ends("flops_per_target", row.flops_per_target),
            "seconds": row.seconds,
            "peak_memory_bytes": row.peak_memory,
            "verdict": row.verdict_text,
            "runs": " ".join(row.runs),
            "baseline_runs": " ".join(row.baseline_runs),
        }


def _estimates(row: Row) -> dict[str, float]:
    nothing = Estimate(math.nan, math.nan, math.nan, math.nan, 0)
    difference, bootstrap = row.difference or nothing, row.bootstrap or nothing
    return {
        "mean": row.mean.mean,
        "mean_low": row.mean.low,
        "mean_high": row.mean.high,
        "mean_sd": row.mean.sd,
        "difference": difference.mean,
        "difference_low": difference.low,
        "difference_high": difference.high,
        "difference_sd": difference.sd,
        "difference_bca_low": bootstrap.low,
        "difference_bca_high": bootstrap.high,
    }


def _ends(name: str, ends: tuple[int, int] | None) -> dict[str, int | None]:
    fewest, most = ends or (None, None)
    return {f"{name}_min": fewest, f"{name}_max": most}


def study_table(frame: pd.DataFrame, study: StudyView) -> Table:
    """Compare every level of a study with the baseline.

    Args:
        frame: the ledger's tidy frame; runs of other studies in it are ignored.
        study: what the plan knows.

    Raises:
        ValueError: an unknown metric, one that nobody measured, or numbers that may not stand in
            one column (different signatures, budgets or data).
    """
    cells = study_cells(frame, study)
    levels = planned_levels(study, cells)
    paired = {axis: pairs(cells, study, axis) for axis in dict.fromkeys(axis for axis, _ in levels)}
    drafts = [_level_fields(study, axis, level, paired[axis], cells) for axis, level in levels]
    rows = [Row(**fields) for fields in judged(drafts, study)]
    signatures = cells.loc[cells["value"].notna(), "signature"].dropna().unique()
    return Table(
        study=study.name,
        metric=study.metric,
        split=study.split,
        signature=str(signatures[0]) if len(signatures) else "",
        baseline={axis: study.baseline_level(axis) for axis in study.axes},
        rows=tuple(_with_baselines(rows, cells, paired, study)),
        comparisons=sum(row.verdict is not Verdict.undefined for row in rows),
        planned=len(runs_of(cells["id"])),
        missing=runs_of(cells.loc[cells["status"] == "missing", "id"]),
        fill_command=study.fill_command,
        trace_command=study.trace_command,
        notes=tuple(table_notes(cells, study, rows)),
    )


def _level_fields(
    study: StudyView, axis: str, level: Any, paired: pd.DataFrame, cells: pd.DataFrame
) -> dict[str, Any]:
    """The fields of a row before its verdict, its differences by seed, and whether it has any."""
    members = paired[has_level(paired, axis, level)]
    differences = per_seed(members, "difference").to_numpy()
    nowhere = cells.loc[cells["status"] == "undefined", "id"]
    return {
        "axis": axis,
        "level": level,
        "difference": statistics.t_estimate(differences),
        "seeds_compared": len(differences),
        "baseline_runs": runs_of(members["partner"]),
        **_run_fields(members, study),
        "differences": differences,
        "comparable": not (members["id"].isin(nowhere) | members["partner"].isin(nowhere)).all(),
    }


def _run_fields(members: pd.DataFrame, study: StudyView) -> dict[str, Any]:
    """The fields of a row that only its own runs decide."""
    counts = members["status"].value_counts()
    finished = members[members["status"] == "finished"]
    return {
        "mean": statistics.t_estimate(per_seed(members, "value").to_numpy()),
        "seeds_planned": len(study.seeds),
        "finished": int(counts.get("finished", 0)),
        "diverged": int(counts.get("diverged", 0)),
        "undefined": int(counts.get("undefined", 0)),
        "missing": int(counts.get("missing", 0)),
        "parameters": _range(members, "parameters"),
        "flops_per_target": _range(members, "flops_per_target"),
        "seconds": _mean(finished, "seconds_total"),
        "peak_memory": _mean(finished, "peak_memory_bytes"),
        "runs": runs_of(members["id"]),
    }


def _range(members: pd.DataFrame, column: str) -> tuple[int, int] | None:
    known = members[column].dropna() if column in members else ()
    return (int(min(known)), int(max(known))) if len(known) else None


def _mean(members: pd.DataFrame, column: str) -> float:
    return float(members[column].astype(float).mean()) if column in members else math.nan


def _with_baselines(
    rows: list[Row], cells: pd.DataFrame, paired: Mapping[str, pd.DataFrame], study: StudyView
) -> list[Row]:
    """Put the shared baseline row on top, or one above each axis where the axes differ in it."""
    arms = {axis: baseline_arm(cells, of_axis) for axis, of_axis in paired.items()}
    distinct = {tuple(members["id"]) for members in arms.values()}
    if len(distinct) <= 1:
        shared = next(iter(arms.values()), cells)
        return [_baseline_row(shared, study, "", None), *rows]
    mixed = []
    for axis, members in arms.items():
        mixed.append(_baseline_row(members, study, axis, study.baseline_level(axis)))
        mixed += [row for row in rows if row.axis == axis]
    return mixed


def _baseline_row(members: pd.DataFrame, study: StudyView, axis: str, level: Any) -> Row:
    fields = _run_fields(members, study)
    return Row(axis=axis, level=level, difference=None, seeds_compared=fields["mean"].n, **fields)

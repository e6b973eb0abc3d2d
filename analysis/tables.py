"""The comparison table of a study as data: one row per level, against the baseline, by seed.

`study_table(frame, study)` takes the ledger's tidy frame and a `StudyView` of the plan. It holds
for one-factor-at-a-time and for factorial studies: every cell is paired with the planned cell that
differs from it in the row's axis only, the differences of one seed are averaged over contexts, and
the seeds are the replicates. Means are over finished runs; diverged ones are counted beside them.
`Table.frame` is the same table as a DataFrame, for CSV and for drawing.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis import statistics
from analysis.frames import (
    StudyView,
    baseline_arm,
    has_level,
    pairs,
    planned_levels,
    runs_of,
    seed_means,
    study_cells,
)
from analysis.judging import judged
from analysis.notes import table_notes
from analysis.reported import Reported, reported_notes, reported_numbers
from analysis.rows import Row, row_record
from analysis.statistics import Verdict

NUMBERS = (
    *("value", "difference", "parameters", "flops_per_target"),
    *("seconds_total", "peak_memory_bytes"),
)
WORDS = ("id", "status", "partner")
Arrays = dict[str, np.ndarray]


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
        reported: what was published of these levels; rows name them by their place, from 1.
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
    reported: tuple[Reported, ...] = ()

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
        shared = {
            "study": self.study,
            "metric": self.metric,
            "split": self.split,
            "signature": self.signature,
        }
        return pd.DataFrame([row_record(row, shared, self.reported) for row in self.rows])


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
    nowhere = set(cells["id"][cells["status"] == "undefined"])
    arrays = {axis: _arrays(of_axis) for axis, of_axis in paired.items()}
    drafts = [
        _level_fields(
            study, axis, level, _chosen(arrays[axis], has_level(paired[axis], axis, level)), nowhere
        )
        for axis, level in levels
    ]
    rows = [Row(**fields) for fields in judged(drafts, study)]
    signatures = cells.loc[cells["value"].notna(), "signature"].dropna().unique()
    reported = study.reported_here
    return Table(
        study=study.name,
        metric=study.metric,
        split=study.split,
        signature=str(signatures[0]) if len(signatures) else "",
        baseline={axis: study.baseline_level(axis) for axis in study.axes},
        rows=tuple(
            replace(
                row,
                reported=reported_numbers(
                    reported, row.axis, row.level, is_baseline=row.is_baseline
                ),
            )
            for row in _with_baselines(rows, cells, paired, study)
        ),
        comparisons=sum(row.verdict is not Verdict.undefined for row in rows),
        planned=len(runs_of(cells["id"])),
        missing=runs_of(cells.loc[cells["status"] == "missing", "id"]),
        fill_command=study.fill_command,
        trace_command=study.trace_command,
        notes=(*table_notes(cells, study, rows), *reported_notes(reported)),
        reported=reported,
    )


def _arrays(cells: pd.DataFrame) -> Arrays:
    """What rows read of the cells; a frame takes a millisecond to pick out the cells of a row."""
    numbers = {name: _numbers(cells, name) for name in NUMBERS}
    words = {name: cells[name].to_numpy(object) for name in WORDS if name in cells}
    return {**numbers, **words, "seed": cells["seed"].to_numpy()}


def _numbers(cells: pd.DataFrame, column: str) -> np.ndarray:
    """A column, NaN where nothing recorded it."""
    if column not in cells:
        return np.full(len(cells), math.nan)
    return cells[column].to_numpy(dtype=float, na_value=math.nan)


def _chosen(arrays: Arrays, members: pd.Series) -> Arrays:
    where = np.flatnonzero(members)
    return {name: array[where] for name, array in arrays.items()}


def _level_fields(
    study: StudyView, axis: str, level: Any, members: Arrays, nowhere: set[str]
) -> dict[str, Any]:
    """The fields of a row before its verdict, its differences by seed, and whether it has any."""
    _, differences = seed_means(members["seed"], members["difference"])
    return {
        "axis": axis,
        "level": level,
        "difference": statistics.t_estimate(differences),
        "seeds_compared": len(differences),
        "baseline_runs": runs_of(members["partner"]),
        **_run_fields(members, study),
        "differences": differences,
        "comparable": not all(
            nowhere & {run, partner}
            for run, partner in zip(members["id"], members["partner"], strict=True)
        ),
    }


def _run_fields(members: Arrays, study: StudyView) -> dict[str, Any]:
    """The fields of a row that only its own runs decide."""
    counts = Counter(members["status"])
    finished = members["status"] == "finished"
    return {
        "mean": statistics.t_estimate(seed_means(members["seed"], members["value"])[1]),
        "seeds_planned": len(study.seeds),
        "finished": counts["finished"],
        "diverged": counts["diverged"],
        "undefined": counts["undefined"],
        "missing": counts["missing"],
        "parameters": _range(members["parameters"]),
        "flops_per_target": _range(members["flops_per_target"]),
        "seconds": _mean(members["seconds_total"][finished]),
        "peak_memory": _mean(members["peak_memory_bytes"][finished]),
        "runs": runs_of(members["id"]),
    }


def _range(numbers: np.ndarray) -> tuple[int, int] | None:
    known = numbers[~np.isnan(numbers)]
    return (int(known.min()), int(known.max())) if len(known) else None


def _mean(numbers: np.ndarray) -> float:
    known = numbers[~np.isnan(numbers)]
    return float(known.mean()) if len(known) else math.nan


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
    fields = _run_fields(_arrays(members), study)
    return Row(axis=axis, level=level, difference=None, seeds_compared=fields["mean"].n, **fields)

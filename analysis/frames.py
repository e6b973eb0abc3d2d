"""From the ledger's tidy frame to the cells of one study, their pairs and their means.

The frame has one row per run x metric x split x length; a run without any metric (one that
diverged) has one row whose `metric` is missing, and so has each split x length at which a run's
design isn't defined: `undefined` says why. Columns read here: `run`, `status` ("finished" or
"diverged"), `metric`, `split`, `length`, `value`, `signature`; when present `undefined`,
`parameters`, `flops_per_target`, `steps`, `seconds_total`, `peak_memory_bytes`, `data_fingerprint`,
`tokenizer_hash`, `hardware`.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.comparable import COMPARABLE, check_comparable
from analysis.metrics import metric_of
from analysis.reported import Reported

ON_PURPOSE = ("budget.", "data.", "optim.accumulate")
"""Axes with these prefixes vary the budget or the data themselves."""

SPLIT_AXIS = "split"
"""Where a study compares what each run measured on several splits; see `analysis.splits`."""

_RUN_COLUMNS = (
    "status",
    "parameters",
    "flops_per_target",
    "steps",
    "seconds_total",
    "peak_memory_bytes",
    "data_fingerprint",
    "tokenizer_hash",
    "hardware",
    "git_commit",
    "code_version",
)


@dataclass(frozen=True, kw_only=True)
class StudyView:
    """What a table needs to know of a study's plan.

    Attributes:
        name: the study's name.
        axes: dotted axis name -> its levels, as they stand in `expected`.
        baseline: dotted name -> level of the baseline; an axis left out means its first level.
        seeds: the common seed list.
        metric: the metric of the table, a key of `analysis.metrics.METRICS`.
        split: the evaluated split the metric is read from.
        expected: one row per planned run: `id`, `seed` and every axis (further dotted config
            columns and `changes` may be there).
        command: the command that runs the missing cells; "" means `ablate sweep NAME`.
        effect: a difference in the metric that matters; a table then says how many seeds show it.
        reported: what was published of the levels.
        mixed_code: whether runs of different code may stand in one column.
        tuning: a sentence on what was tuned in every arm, and how; "" for nothing.
    """

    name: str
    axes: Mapping[str, Sequence[Any]]
    baseline: Mapping[str, Any]
    seeds: Sequence[int]
    metric: str
    split: str
    expected: pd.DataFrame
    command: str = ""
    effect: float | None = None
    mixed_code: bool = False
    reported: Sequence[Reported] = ()
    tuning: str = ""

    @property
    def reported_here(self) -> tuple[Reported, ...]:
        """What was published that may stand beside this metric on this split."""
        return tuple(
            one for one in self.reported if one.belongs(metric=self.metric, split=self.split)
        )

    def baseline_level(self, axis: str) -> Any:
        """The level of `axis` that its other levels are compared with."""
        return self.baseline.get(axis, self.axes[axis][0])

    @property
    def fill_command(self) -> str:
        """The command that runs what is missing."""
        return self.command or f"ablate sweep {self.name}"

    @property
    def trace_command(self) -> str:
        """The command that says what stands behind a row of its table."""
        command = self.fill_command.replace("ablate sweep", "ablate reproduce", 1)
        if SPLIT_AXIS in self.axes:  # its levels, and so the rows, depend on both
            command += f" --metric {self.metric} --split {shlex.quote(self.split)}"
        return f"{command} --row"


def study_cells(frame: pd.DataFrame, study: StudyView) -> pd.DataFrame:
    """One row per planned run: `id`, `seed`, the axes, `status`, `value` and facts of the run.

    `status` is "finished", "diverged", "undefined" (finished, but its design has no meaning on the
    study's split: `undefined` says why) or "missing"; `value` is the study's metric, only for
    finished runs, and missing where it is infinite: no mean can hold it. Runs of other studies are
    left out.

    Raises:
        ValueError: an unknown metric, a metric or split nobody measured, two values for one run,
            or values that may not stand in one column (see `check_comparable`).
    """
    metric_of(study.metric)
    planned = study.expected.drop_duplicates("id").reset_index(drop=True)
    records = frame[frame["run"].isin(planned["id"])]
    values = _values(records, study)
    facts = records.drop_duplicates("run").set_index("run")
    facts = facts[[name for name in _RUN_COLUMNS if name in facts.columns]]
    used = ["id", "seed", *study.axes, *COMPARABLE]
    kept = planned[[name for name in dict.fromkeys(used) if name in planned and name not in facts]]
    cells = kept.join(facts, on="id").join(values, on="id")
    cells["undefined"] = cells["id"].map(_reasons(records, study)).astype(object)
    cells["status"] = cells["status"].astype(object).where(cells["status"].notna(), "missing")
    nowhere = (cells["status"] == "finished") & cells["undefined"].notna()
    cells["status"] = cells["status"].where(~nowhere, "undefined")
    usable = (cells["status"] == "finished") & np.isfinite(cells["value"].astype(float))
    cells["value"] = cells["value"].where(usable)
    check_comparable(cells, study)
    return cells


def has_level(cells: pd.DataFrame, axis: str, level: Any) -> pd.Series:
    """Boolean mask of the cells whose `axis` is at `level`; None equals a missing entry."""
    return cells[axis].isna() if level is None else cells[axis] == level


def pairs(cells: pd.DataFrame, study: StudyView, axis: str) -> pd.DataFrame:
    """The cells off the baseline level of `axis` that have a planned partner at it.

    A partner has the same seed and the same levels of all other axes. In a one-factor-at-a-time
    study that is the baseline run of the seed; in a factorial one there is one per context.

    Args:
        cells: planned runs with `id`, `seed`, `value` and the axes.
        study: the plan.
        axis: the axis whose levels are compared.

    Returns:
        the cells, one row each, with `partner` (run id) and `difference` (cell minus partner, NaN
        unless both have a value).
    """
    names = ["seed", *(name for name in study.axes if name != axis)]
    columns = (cells[name].astype(object).where(cells[name].notna(), None) for name in names)
    contexts = list(zip(*columns, strict=True))
    at_baseline = has_level(cells, axis, study.baseline_level(axis)).tolist()
    partners = {contexts[row]: row for row, flag in enumerate(at_baseline) if flag}
    assert len(partners) == sum(at_baseline), f"two baseline runs of {axis} in one context"
    members = [
        row for row, flag in enumerate(at_baseline) if not flag and contexts[row] in partners
    ]
    found = cells.iloc[members].reset_index(drop=True)
    against = cells.iloc[[partners[contexts[row]] for row in members]].reset_index(drop=True)
    return found.assign(partner=against["id"], difference=found["value"] - against["value"])


def baseline_arm(cells: pd.DataFrame, paired: pd.DataFrame) -> pd.DataFrame:
    """The cells that some row of `paired` (from `pairs`) is compared with."""
    return cells[cells["id"].isin(paired["partner"])]


def planned_levels(study: StudyView, cells: pd.DataFrame) -> list[tuple[str, Any]]:
    """Every (axis, level) other than the baseline's that the plan has at least one cell of."""
    there = {axis: set(cells[axis].dropna()) for axis in study.axes}
    without = {axis for axis in study.axes if cells[axis].isna().any()}
    return [
        (axis, level)
        for axis, levels in study.axes.items()
        for level in levels
        if level != study.baseline_level(axis)
        and (axis in without if level is None else level in there[axis])
    ]


def per_seed(arm_cells: pd.DataFrame, column: str) -> pd.Series:
    """Mean of `column` for every seed (index `seed`), over that seed's contexts with a number.

    Seeds are the independent replicates; contexts of a factorial that share a seed are not.
    """
    numbers = arm_cells[column].to_numpy(dtype=float, na_value=np.nan)
    seeds, means = seed_means(arm_cells["seed"].to_numpy(), numbers)
    return pd.Series(means, index=pd.Index(seeds, name="seed"), name=column)


def seed_means(seeds: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The seeds that have a number, in order, and the mean of each, NaN left out.

    Not by groupby, which takes milliseconds for a few numbers: a table asks for many.
    """
    present = ~np.isnan(numbers)
    found, places, counts = np.unique(seeds[present], return_inverse=True, return_counts=True)
    sums = np.bincount(places, weights=numbers[present], minlength=len(found))
    return found, sums / counts


def _values(records: pd.DataFrame, study: StudyView) -> pd.DataFrame:
    """`value` and `signature` of the study's metric, indexed by run."""
    whole = records.assign(split=named_splits(records))
    chosen = whole[(whole["metric"] == study.metric) & (whole["split"] == study.split)]
    expected = (records["status"] == "finished") & ~records["run"].isin(_reasons(records, study))
    if chosen.empty and expected.any():
        found = whole.loc[whole["metric"].notna(), ["metric", "split"]].drop_duplicates()
        if (same := found["metric"] == study.metric).any():
            found = found[same]
        names = ", ".join(f"{name} on {split}" for name, split in found.itertuples(index=False))
        raise ValueError(
            f"no run of {study.name} has {study.metric} on {study.split}; measured: {names}"
        )
    doubled = chosen.loc[chosen["run"].duplicated(), "run"]
    if len(doubled):
        raise ValueError(
            f"run {doubled.iloc[0]} has {study.metric} on {study.split} twice; remove one record"
        )
    return chosen.set_index("run")[["value", "signature"]]


def _reasons(records: pd.DataFrame, study: StudyView) -> dict[str, str]:
    """By run, why its design isn't defined on the study's split."""
    if "undefined" not in records:
        return {}
    there = records["undefined"].notna() & (named_splits(records) == study.split)
    return dict(records.loc[there, ["run", "undefined"]].itertuples(index=False))


def runs_of(ids: Iterable[str]) -> tuple[str, ...]:
    """The runs that these cells are measured on, each once; see `analysis.splits`."""
    return tuple(dict.fromkeys(identifier.partition("/")[0] for identifier in ids))


def named_splits(records: pd.DataFrame) -> pd.Series:
    """The split of each row, with the length where only a part was measured: `test@8`."""
    if "length" not in records:
        return records["split"]
    lengths = records["length"].map(lambda length: f"@{length:g}", na_action="ignore")
    # Of no records at all, the lengths are numbers still.
    return records["split"] + lengths.astype(object).fillna("").astype(str)

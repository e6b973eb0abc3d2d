"""Comparing what one run measured on several splits: the splits become an axis of the study."""

from dataclasses import replace
from fnmatch import fnmatchcase

import pandas as pd

from analysis.frames import SPLIT_AXIS, StudyView, named_splits


def compare_splits(frame: pd.DataFrame, study: StudyView) -> tuple[pd.DataFrame, StudyView]:
    """The splits that `study.split` names, as levels of an axis `split` within every run.

    `continuation.*@64` names several splits, and so do patterns and names with commas between; the
    first of them is the baseline. A split that stands for itself leaves frame and study as they
    are.

    Args:
        frame: the ledger's tidy frame.
        study: the plan.

    Returns:
        A frame and a plan that hold a cell `RUN/SPLIT` for each run and split, for
        `analysis.tables.study_table`. They are paired by seed within their run. A finished run that
        wasn't measured on one of the splits has no value there.

    Raises:
        ValueError: no split with the study's metric has such a name.
    """
    patterns = [part.strip() for part in study.split.split(",")]
    if len(patterns) == 1 and "*" not in study.split:
        return frame, study
    records = frame[frame["run"].isin(study.expected["id"])]
    records = records.assign(split=named_splits(records))
    told = records[(records["metric"] == study.metric) | _undefined(records)]
    splits = pd.DataFrame({SPLIT_AXIS: _chosen(list(told["split"].unique()), patterns, study)})
    here = [name for name in ("metric", "value", "signature", "undefined") if name in records]
    facts = records.drop_duplicates("run").drop(columns=["split", "length", *here], errors="ignore")
    cells = facts.merge(splits, how="cross")
    cells = cells.merge(told[["run", "split", *here]], on=["run", "split"], how="left")
    cells = cells.assign(run=cells["run"] + "/" + cells["split"], split=study.split)
    expected = study.expected.merge(splits, how="cross")
    expected = expected.assign(id=expected["id"] + "/" + expected[SPLIT_AXIS])
    axes = {**study.axes, SPLIT_AXIS: tuple(splits[SPLIT_AXIS])}
    baseline = {**study.baseline, SPLIT_AXIS: splits[SPLIT_AXIS].iloc[0]}
    return cells, replace(study, axes=axes, baseline=baseline, expected=expected)


def _undefined(records: pd.DataFrame) -> pd.Series:
    """Where a record says that a design isn't defined."""
    if "undefined" not in records:
        return pd.Series(False, index=records.index)
    return records["undefined"].notna()


def _chosen(measured: list[str], patterns: list[str], study: StudyView) -> list[str]:
    """The measured splits with such names, in the order of the patterns, then of the records."""
    found = {pattern: [s for s in measured if fnmatchcase(s, pattern)] for pattern in patterns}
    for pattern, names in found.items():
        if not names:
            raise ValueError(
                f"no run of {study.name} has {study.metric} on a split named {pattern!r}; "
                f"measured: {', '.join(measured) or 'nothing'}"
            )
    return list(dict.fromkeys(name for names in found.values() for name in names))

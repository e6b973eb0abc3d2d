"""A study's results as an Optuna study: a trial for each planned run, a parameter for each axis.

It is a view, made anew each time and kept in memory, for `optuna-dashboard` to draw.
"""

import warnings
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.frames import StudyView, has_level, study_cells
from analysis.metrics import metric_of

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import CategoricalDistribution

FACTS = (
    *("seed", "status", "undefined", "parameters"),
    *("steps", "seconds_total", "peak_memory_bytes"),
)
Curve = Mapping[int, float]


def results_study(
    frame: pd.DataFrame, study: StudyView, *, curves: Mapping[str, Curve]
) -> "optuna.Study":
    """The results as trials.

    A finished run is complete, with the study's metric as its value; one that diverged, or whose
    design isn't defined on the split, has failed; one without a result waits. The seed is no
    parameter, for it would be ranked among the choices.

    Args:
        frame: the ledger's tidy frame, with the times `started` and `ended`.
        study: the plan; both may come from `analysis.splits.compare_splits`.
        curves: validation losses by step of an update, by run; they are the intermediate values.
    """
    import optuna

    cells = study_cells(frame, study)
    times = frame.drop_duplicates("run").set_index("run")[["started", "ended"]]
    higher = metric_of(study.metric).higher_is_better
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    found = optuna.create_study(
        study_name=study.name, direction="maximize" if higher else "minimize"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        found.set_metric_names([f"{study.metric} on {study.split}"])
    choices, levels = level_choices(study.axes), _levels(cells, study.axes)
    for row, chosen in zip(cells.to_dict("records"), levels, strict=True):
        trial = optuna.trial.create_trial(
            state=_state(row),
            value=row["value"] if row["status"] == "finished" else None,
            params=chosen,
            distributions=dict(choices),
            user_attrs={"run": row["id"], **_facts(row)},
            intermediate_values=dict(curves.get(row["id"].partition("/")[0], {})),
        )
        if row["id"] in times.index:
            trial.datetime_start, trial.datetime_complete = map(_local, times.loc[row["id"]])
        found.add_trial(trial)
    return found


def level_choices(axes: Mapping[str, Any]) -> dict[str, "CategoricalDistribution"]:
    """The levels of each axis, by their names, as what an Optuna trial chooses from."""
    from optuna.distributions import CategoricalDistribution

    return {axis: CategoricalDistribution([str(v) for v in axes[axis]]) for axis in axes}


def _levels(cells: pd.DataFrame, axes: Mapping[str, Any]) -> list[dict[Any, Any]]:
    """The names of the levels of each cell; a frame may hold a level as another kind of number."""
    names = pd.DataFrame(index=cells.index, columns=list(axes), dtype=object)
    for axis, levels in axes.items():
        for level in levels:
            names.loc[has_level(cells, axis, level), axis] = str(level)
    return names.to_dict("records")


def _state(row: Mapping[Any, Any]) -> "optuna.trial.TrialState":
    from optuna.trial import TrialState

    states = {"finished": TrialState.COMPLETE, "missing": TrialState.WAITING}
    return states.get(row["status"], TrialState.FAIL)


def _facts(row: Mapping[Any, Any]) -> dict[str, Any]:
    """What is known of a run besides its value, as plain numbers and words."""
    known = {name: row[name] for name in FACTS if name in row and not pd.isna(row[name])}
    return {n: value.item() if hasattr(value, "item") else value for n, value in known.items()}


def _local(time: str) -> datetime:
    """A recorded time as Optuna has it: that of this machine, without a zone."""
    return datetime.fromisoformat(time).astimezone().replace(tzinfo=None)

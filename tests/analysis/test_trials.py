"""A study's results as trials: every planned run, whatever became of it."""

import math
from datetime import timedelta

import pandas as pd
import pytest
from optuna import Study
from optuna.importance import get_param_importances
from optuna.trial import TrialState

from analysis.splits import compare_splits
from analysis.trials import results_study
from tests.analysis.ledgers import factorial_cells, ledger_frame, view

AXES = {"design.norm_position": ["pre", "post"], "dims.n_heads": [None, 4]}
EXPECTED = factorial_cells(AXES, [1, 2])
TIMES = {"started": "2026-01-02T03:04:05+00:00", "ended": "2026-01-02T03:05:05+00:00"}


def score(cell: pd.Series) -> float:
    diverged = cell["design.norm_position"] == "post" and cell["seed"] == 2
    return math.nan if diverged else 30.0 - 9 * (cell["design.norm_position"] == "post")


FRAME = ledger_frame(EXPECTED.iloc[:-1], score).assign(**TIMES)  # the last run is missing


@pytest.fixture(scope="module")
def found() -> Study:
    curves = {EXPECTED["id"][0]: {100: 2.0, 200: 1.5}}
    return results_study(FRAME, view(EXPECTED, AXES), curves=curves)


def test_each_planned_run_is_a_trial_with_its_levels(found: Study) -> None:
    trials = found.get_trials()
    assert [trial.user_attrs["run"] for trial in trials] == list(EXPECTED["id"])
    assert trials[0].params == {"design.norm_position": "pre", "dims.n_heads": "None"}
    assert [trial.user_attrs["seed"] for trial in trials] == list(EXPECTED["seed"])
    assert {trial.params["dims.n_heads"] for trial in trials} == {"None", "4"}
    assert trials[0].distributions["dims.n_heads"].choices == ("None", "4")


def test_states_and_values_say_what_became_of_them(found: Study) -> None:
    trials = found.get_trials()
    states = [TrialState.COMPLETE] * 5 + [TrialState.FAIL, TrialState.COMPLETE, TrialState.WAITING]
    assert [trial.state for trial in trials] == states
    values = [30.0] * 4 + [21.0, None, 21.0, None]
    assert [trial.value for trial in trials] == values
    assert trials[5].user_attrs["status"] == "diverged"
    assert found.direction.name == "MAXIMIZE"
    assert found.metric_names == ["bleu on test"]


def test_curve_and_duration_are_there(found: Study) -> None:
    trials = found.get_trials()
    assert trials[0].intermediate_values == {100: 2.0, 200: 1.5}
    assert trials[0].duration == timedelta(seconds=60)
    assert trials[7].datetime_start is None


def test_the_axis_that_matters_is_the_important_one(found: Study) -> None:
    importances = get_param_importances(found)
    assert max(importances, key=lambda name: importances[name]) == "design.norm_position"


def test_splits_that_are_compared_are_a_parameter() -> None:
    both = pd.concat([FRAME, FRAME.dropna(subset="metric").assign(split="test@16")])
    study = view(EXPECTED, AXES, split="test*")
    found = results_study(*compare_splits(both, study), curves={EXPECTED["id"][0]: {100: 2.0}})
    trials = found.get_trials()
    assert len(trials) == 2 * len(EXPECTED)
    assert [trial.params["split"] for trial in trials[:2]] == ["test", "test@16"]
    assert trials[1].intermediate_values == {100: 2.0}

import numpy as np
import pandas as pd
import pytest

from analysis import frames
from tests.analysis.ledgers import (
    AXES,
    factorial_cells,
    ledger_frame,
    one_factor_cells,
    planted,
    view,
)


def test_every_planned_run_is_one_cell_and_strangers_are_left_out(small_study):
    frame, study = small_study
    stranger = frame.iloc[[0]].assign(run="ffffffffffff", value=99.0)
    cells = frames.study_cells(pd.concat([frame, stranger]), study)
    assert list(cells["id"]) == list(study.expected["id"])
    expected = frame[frame["metric"] == "bleu"].set_index("run")["value"]
    assert cells.set_index("id")["value"].to_dict() == expected.to_dict()
    assert set(cells["status"]) == {"finished"}


def test_missing_and_diverged_runs_stay_as_cells_without_a_value(small_study):
    frame, study = small_study
    gone, diverged = study.expected["id"].iloc[[3, 9]]
    frame = frame[frame["run"] != gone]
    frame.loc[frame["run"] == diverged, "status"] = "diverged"  # its metrics must not count
    cells = frames.study_cells(frame, study).set_index("id")
    assert cells.loc[gone, "status"] == "missing"
    assert cells.loc[diverged, "status"] == "diverged"
    assert cells.loc[[gone, diverged], "value"].isna().all()
    assert cells["value"].notna().sum() == len(study.expected) - 2


def test_an_empty_ledger_makes_every_cell_missing(small_study):
    frame, study = small_study
    cells = frames.study_cells(frame.iloc[:0], study)
    assert len(cells) == len(study.expected)
    assert set(cells["status"]) == {"missing"}


def test_values_at_lengths_are_not_the_value_of_the_split(small_study):
    frame, study = small_study
    longer = frame[frame["metric"] == "bleu"].assign(length=64, value=1.0)
    cells = frames.study_cells(pd.concat([frame, longer]), study)
    assert cells["value"].min() > 20


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"metric": "blue"}, "unknown metric 'blue'; legal: bleu, "),
        ({"metric": "chrf"}, "no run of six-axes has chrf on test; measured: bleu on test, loss"),
        ({"split": "val"}, r"no run of six-axes has bleu on val; measured: bleu on test$"),
    ],
)
def test_a_metric_that_is_not_there_is_refused_with_those_that_are(small_study, changes, words):
    frame, study = small_study
    with pytest.raises(ValueError, match=words):
        frames.study_cells(frame, view(study.expected, **changes))


def test_two_values_for_one_run_are_refused(small_study):
    frame, study = small_study
    run = frame["run"].iloc[0]
    doubled = pd.concat([frame, frame.iloc[[0]].assign(value=31.0)])
    with pytest.raises(ValueError, match=f"run {run} has bleu on test twice"):
        frames.study_cells(doubled, study)


@pytest.mark.parametrize(
    ("column", "other"),
    [
        ("signature", "nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:2.6.0"),
        ("steps", 900),
        ("data_fingerprint", "0000000000000000"),
        ("tokenizer_hash", "0000000000000000"),
    ],
)
def test_unlike_numbers_do_not_stand_in_one_column(small_study, column, other):
    frame, study = small_study
    run = study.expected["id"].iloc[7]
    frame.loc[(frame["run"] == run) & (frame["metric"] == "bleu"), column] = other
    with pytest.raises(ValueError, match=f"^{column} differs within one column") as refusal:
        frames.study_cells(frame, study)
    assert run in str(refusal.value)


@pytest.mark.parametrize(
    "column", ["budget.max_steps", "data.tokens_per_batch", "optim.accumulate"]
)
def test_unlike_budgets_are_refused_unless_they_are_the_axis(column):
    axes = {column: [1, 2]}
    expected = one_factor_cells(axes, [1, 2])
    frame = ledger_frame(expected, planted({}))
    frame["steps"] = 1000
    with pytest.raises(ValueError, match=f"^{column} differs"):
        frames.study_cells(frame, view(expected, {}))
    assert len(frames.study_cells(frame, view(expected, axes))) == 4


def test_a_diverged_run_that_stopped_early_does_not_break_the_budget():
    expected = one_factor_cells(AXES, [1, 2])
    score = planted({})
    frame = ledger_frame(expected, lambda cell: np.nan if cell["seed"] == 2 else score(cell))
    frame.loc[frame["status"] == "diverged", "steps"] = 123
    assert len(frames.study_cells(frame, view(expected))) == len(expected)


def test_partners_differ_in_the_axis_only():
    expected = factorial_cells(AXES, [1, 2])
    study = view(expected)
    cells = frames.study_cells(ledger_frame(expected, planted({})), study)
    paired = frames.pairs(cells, study, "design.position")
    assert list(paired["id"]) == list(cells.loc[cells["design.position"] != "sinusoidal", "id"])
    partners = cells.set_index("id").loc[paired["partner"]].reset_index()
    assert set(partners["design.position"]) == {"sinusoidal"}
    for column in ("seed", "design.norm_position", "dims.n_heads"):
        assert list(partners[column]) == list(paired[column])
    assert np.array_equal(paired["difference"], paired["value"] - partners["value"])


def test_a_pair_with_a_hole_has_no_difference(small_study):
    frame, study = small_study
    baseline_of_seed_2 = study.expected["id"].iloc[1]
    cells = frames.study_cells(frame[frame["run"] != baseline_of_seed_2], study)
    paired = frames.pairs(cells, study, "design.norm_position").set_index("seed")
    assert paired["difference"].isna().to_dict() == {seed: seed == 2 for seed in range(1, 9)}
    assert list(frames.per_seed(paired.reset_index(), "difference").index) == [1, 3, 4, 5, 6, 7, 8]


def test_contexts_of_a_seed_are_averaged():
    cells = pd.DataFrame({"seed": [1, 1, 2, 2], "difference": [1.0, 3.0, 5.0, np.nan]})
    assert frames.per_seed(cells, "difference").to_dict() == {1: 2.0, 2: 5.0}


def test_the_baseline_of_an_axis_is_only_what_its_levels_are_compared_with(small_study):
    frame, study = small_study
    cells = frames.study_cells(frame, study)
    shared = frames.baseline_arm(cells, frames.pairs(cells, study, "design.position"))
    assert list(shared["id"]) == list(study.expected["id"].iloc[:8])


def test_a_baseline_that_is_not_the_first_level_and_a_level_none():
    axes = {"dims.window": [8, None, 16]}
    expected = one_factor_cells(axes, [1, 2])
    expected["dims.window"] = expected["dims.window"].astype(object)
    study = view(expected, axes, baseline={"dims.window": None})
    cells = frames.study_cells(ledger_frame(expected, planted({})), study)
    assert frames.planned_levels(study, cells) == [("dims.window", 8), ("dims.window", 16)]
    paired = frames.pairs(cells, study, "dims.window")
    at_none = list(expected["id"][expected["dims.window"].isna()])
    assert list(paired["partner"]) == 2 * at_none


def test_contexts_with_a_level_none_find_their_partner():
    axes = {"dims.n_heads": [4, 8], "dims.window": [8, None]}
    expected = factorial_cells(axes, [1, 2])
    cells = frames.study_cells(ledger_frame(expected, planted({})), view(expected, axes))
    assert len(frames.pairs(cells, view(expected, axes), "dims.n_heads")) == 4

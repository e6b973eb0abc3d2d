"""What a table says of a level that has no meaning on its split."""

import math

import pandas as pd
import pytest

from analysis import frames, statistics
from analysis.rendering import render
from analysis.statistics import Verdict
from analysis.tables import study_table
from tests.analysis.ledgers import AXES, SIGNATURE, factorial_cells, ledger_frame, planted, view
from tests.analysis.test_tables import NO_POSITION, ROPE, by_level

WHY = "design.position learned is not defined beyond dims.max_length 8 tokens, and 16 items take 34"


def without(frame: pd.DataFrame, runs: pd.Series, *, split: str = "test") -> pd.DataFrame:
    """The ledger's frame where these runs have no meaning on a split."""
    stay = frame[~(frame["run"].isin(runs) & (frame["split"] == split))].assign(undefined=None)
    first = frame[frame["run"].isin(runs)].drop_duplicates("run")
    nothing = {"metric": None, "value": None, "signature": None, "length": None}
    return pd.concat([stay, first.assign(split=split, undefined=WHY, **nothing)])


def runs_at(study, axis: str, level: object) -> pd.Series:
    return study.expected.loc[study.expected[axis] == level, "id"]


def test_an_undefined_run_is_neither_missing_nor_finished(small_study):
    frame, study = small_study
    rope = runs_at(study, "design.position", "rope")
    cells = frames.study_cells(without(frame, rope), study).set_index("id")
    assert set(cells.loc[rope, "status"]) == {"undefined"}
    assert set(cells.loc[rope, "undefined"]) == {WHY}
    assert cells.loc[rope, "value"].isna().all()
    assert set(cells.drop(rope)["status"]) == {"finished"}


def test_what_is_undefined_elsewhere_counts_here(small_study):
    frame, study = small_study
    rope = runs_at(study, "design.position", "rope")
    cells = frames.study_cells(without(frame, rope, split="validation"), study)
    assert set(cells["status"]) == {"finished"}


def test_a_diverged_run_stays_diverged(small_study):
    frame, study = small_study
    rope = runs_at(study, "design.position", "rope")
    frame = without(frame, rope)
    frame.loc[frame["run"].isin(rope), "status"] = "diverged"
    cells = frames.study_cells(frame, study).set_index("id")
    assert set(cells.loc[rope, "status"]) == {"diverged"}


def test_an_undefined_level_is_no_test_and_nothing_is_missing(small_study):
    frame, study = small_study
    table = study_table(without(frame, runs_at(study, "design.position", "rope")), study)
    row = by_level(table)[ROPE]
    assert row.verdict is Verdict.undefined
    assert row.verdict_text == "undefined"
    assert (row.undefined, row.finished, row.missing, row.seeds_compared) == (8, 0, 0, 0)
    assert math.isnan(row.p_adjusted)
    assert (table.missing, table.headline) == ((), "complete: 40 runs")
    assert table.comparisons == 3
    assert f"Undefined on test, so not measured and not compared: 8 runs ({WHY})." in table.notes
    assert not any("Finished without" in note for note in table.notes)


def test_the_other_levels_are_corrected_as_if_it_were_not_there(small_study):
    frame, study = small_study
    rope = runs_at(study, "design.position", "rope")
    expected = study.expected[~study.expected["id"].isin(rope)].reset_index(drop=True)
    alone = study_table(frame, view(expected, {**AXES, "design.position": ["sinusoidal", "none"]}))
    beside = by_level(study_table(without(frame, rope), study))
    assert {key: row.p_adjusted for key, row in by_level(alone).items()} == {
        key: pytest.approx(row.p_adjusted) for key, row in beside.items() if key != ROPE
    }


def test_with_an_undefined_baseline_there_is_nothing_to_compare_with(small_study):
    frame, study = small_study
    baseline = study.expected.loc[study.expected["changes"].map(len) == 0, "id"]
    table = study_table(without(frame, baseline), study)
    assert table.rows[0].verdict_text == "baseline"
    assert {row.verdict_text for row in by_level(table).values()} == {"baseline undefined"}
    assert table.comparisons == 0
    assert by_level(table)[NO_POSITION].mean.n == 8


def test_a_study_that_is_undefined_throughout_is_no_error(small_study):
    frame, study = small_study
    table = study_table(without(frame, study.expected["id"]), study)
    assert {row.verdict for row in by_level(table).values()} == {Verdict.undefined}


def test_where_some_contexts_are_defined_those_are_compared():
    axes = {"design.position": ["rope", "learned"], "data.train_max": [8, 16]}
    expected = factorial_cells(axes, list(range(1, 9)))
    frame = ledger_frame(expected, planted({("design.position", "learned"): -3.0}))
    short = (expected["design.position"] == "learned") & (expected["data.train_max"] == 16)
    table = study_table(without(frame, expected.loc[short, "id"]), view(expected, axes))
    row = by_level(table)["design.position", "learned"]
    assert (row.finished, row.undefined, row.seeds_compared) == (8, 8, 8)
    assert row.verdict is Verdict.worse


@pytest.mark.parametrize("format", ["markdown", "terminal", "csv"])
def test_the_word_stands_in_every_form(small_study, format):
    frame, study = small_study
    frame = without(frame, runs_at(study, "design.position", "rope"))
    text = render(study_table(frame, study), format=format)
    assert SIGNATURE in text
    (line,) = (line for line in text.splitlines() if "rope" in line and "undefined" in line)
    assert "missing" not in line
    assert "too small" not in line


def test_seeds_for_an_effect_are_those_of_the_tests_that_there_are(small_study):
    frame, study = small_study
    frame = without(frame, runs_at(study, "design.position", "rope"))
    table = study_table(frame, view(study.expected, effect=0.1))
    row = by_level(table)["dims.n_heads", 8]
    needed = statistics.seeds_needed(0.1, row.difference.sd, alpha=0.05 / table.comparisons)
    (note,) = [note for note in table.notes if note.startswith("Seeds that would show")]
    assert table.comparisons == 3
    assert f"dims.n_heads=8 {needed}" in note

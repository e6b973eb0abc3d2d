import math

import pandas as pd
import pytest
from statsmodels.stats.weightstats import DescrStatsW

from analysis import statistics
from analysis.statistics import Verdict
from analysis.tables import study_table
from tests.analysis.ledgers import (
    AXES,
    factorial_cells,
    ledger_frame,
    one_factor_cells,
    planted,
    view,
)

NORM = ("design.norm_position", "post")
ROPE = ("design.position", "rope")
NO_POSITION = ("design.position", "none")
HEADS = ("dims.n_heads", 8)


def by_level(table):
    return {(row.axis, row.level): row for row in table.rows if not row.is_baseline}


def test_a_fixed_frame_gives_the_hand_computed_numbers():
    baseline = [30.0, 31.0, 29.0, 30.5, 30.2]
    changed = [31.0, 33.0, 30.5, 30.0, 31.2]  # differences 1, 2, 1.5, -.5, 1
    axes = {"design.norm_position": ["pre", "post"]}
    expected = one_factor_cells(axes, [1, 2, 3, 4, 5])
    scores = {"pre": baseline, "post": changed}
    frame = ledger_frame(
        expected, lambda cell: scores[cell["design.norm_position"]][cell["seed"] - 1]
    )
    table = study_table(frame, view(expected, axes))
    top, row = table.rows
    assert top.mean.mean == pytest.approx(30.14, abs=1e-8)
    reach = 2.7764451051977987 * math.sqrt(3.5 / 4) / math.sqrt(5)
    assert row.difference.mean == pytest.approx(1.0, abs=1e-8)
    assert row.difference.low == pytest.approx(1.0 - reach, abs=1e-8)
    assert row.difference.high == pytest.approx(1.0 + reach, abs=1e-8)
    assert row.mean.mean == pytest.approx(31.14, abs=1e-8)
    assert row.p == row.p_adjusted == pytest.approx(0.125, abs=1e-8)
    assert row.verdict is Verdict.too_few_seeds
    assert row.detectable == math.inf
    assert row.parameters == (1_200_000, 1_200_000)
    assert row.seconds == pytest.approx(63.0)


def test_planted_effects_are_found_and_nothing_else(small_study):
    table = study_table(*small_study)
    verdicts = {key: row.verdict for key, row in by_level(table).items()}
    assert verdicts == {
        NORM: Verdict.worse,
        NO_POSITION: Verdict.not_distinguishable,
        ROPE: Verdict.better,
        HEADS: Verdict.not_distinguishable,
    }
    row = by_level(table)[NORM]
    assert row.difference.low <= -2.0 <= row.difference.high
    assert table.comparisons == 4
    assert table.headline == "complete: 40 runs"


def test_lower_is_better_for_a_loss(small_study):
    frame, study = small_study
    table = study_table(frame, view(study.expected, metric="loss", split="validation"))
    assert by_level(table)[NORM].difference.mean > 0
    assert by_level(table)[NORM].verdict is Verdict.worse
    assert by_level(table)[ROPE].verdict is Verdict.better


def test_p_values_are_adjusted_over_the_whole_table(small_study):
    table = study_table(*small_study)
    rows = [row for row in table.rows if not row.is_baseline]
    assert [row.p_adjusted for row in rows] == pytest.approx(
        statistics.holm([row.p for row in rows])
    )


def test_five_seeds_never_get_a_verdict_however_large_the_effect():
    expected = one_factor_cells(AXES, [1, 2, 3, 4, 5])
    table = study_table(ledger_frame(expected, planted({NORM: -20.0})), view(expected))
    assert {row.verdict for row in by_level(table).values()} == {Verdict.too_few_seeds}
    assert any("at least 8 compared seeds" in note for note in table.notes)


def test_missing_runs_are_counted_and_named_with_the_command(small_study):
    frame, study = small_study
    gone = list(study.expected["id"].iloc[[8, 20]])
    table = study_table(frame[~frame["run"].isin(gone)], study)
    assert table.missing == tuple(gone)
    assert table.headline == "incomplete: 2 of 40 runs missing; fill with: ablate sweep six-axes"
    row = by_level(table)[NORM]
    assert (row.seeds_compared, row.seeds_planned, row.missing, row.finished) == (7, 8, 1, 7)
    assert gone[0] in row.runs


def test_the_command_of_the_plan_is_the_one_shown(small_study):
    frame, study = small_study
    study = view(study.expected, command="ablate sweep my.yaml --runs=elsewhere")
    assert study_table(frame.iloc[:0], study).headline == (
        "incomplete: 40 of 40 runs missing; fill with: ablate sweep my.yaml --runs=elsewhere"
    )


def test_a_level_without_runs_is_missing_and_still_counts_as_a_comparison(small_study):
    frame, study = small_study
    rope = study.expected.loc[study.expected["design.position"] == "rope", "id"]
    whole, partial = study_table(frame, study), study_table(frame[~frame["run"].isin(rope)], study)
    row = by_level(partial)[ROPE]
    assert row.verdict is Verdict.missing
    assert math.isnan(row.p_adjusted)
    assert partial.comparisons == 4
    assert by_level(partial)[NORM].p_adjusted == pytest.approx(by_level(whole)[NORM].p_adjusted)


def diverging(when, effects):
    score = planted(effects)

    def scored(cell):
        value = score(cell)
        return math.nan if when(cell) else value

    return scored


def test_diverged_runs_are_counted_and_said_in_the_verdict():
    expected = one_factor_cells(AXES, list(range(1, 11)))
    score = diverging(
        lambda cell: cell["design.position"] == "rope" and cell["seed"] <= 1, {ROPE: 1.0}
    )
    frame = ledger_frame(expected, score)
    table = study_table(frame, view(expected))
    row = by_level(table)[ROPE]
    assert (row.diverged, row.finished, row.seeds_compared) == (1, 9, 9)
    assert row.verdict_text == "better; 1 of 10 diverged"
    values = frame.loc[(frame["design.position"] == "rope") & (frame["metric"] == "bleu"), "value"]
    assert row.mean.mean == pytest.approx(values.mean(), abs=1e-9)
    assert table.missing == ()
    assert any("diverged runs are counted" in note for note in table.notes)


def test_an_arm_that_always_diverges_has_no_number():
    expected = one_factor_cells(AXES, list(range(1, 9)))
    score = diverging(lambda cell: cell["design.position"] == "none", {})
    row = by_level(study_table(ledger_frame(expected, score), view(expected)))[NO_POSITION]
    assert row.verdict is Verdict.diverged
    assert row.verdict_text == "8 of 8 diverged"
    assert row.mean.n == 0


def test_a_diverged_baseline_run_costs_its_pairs_and_shows_in_its_row():
    expected = one_factor_cells(AXES, list(range(1, 9)))
    score = diverging(lambda cell: not cell["changes"] and cell["seed"] == 3, {})
    table = study_table(ledger_frame(expected, score), view(expected))
    assert table.rows[0].verdict_text == "baseline; 1 of 8 diverged"
    assert {row.seeds_compared for row in by_level(table).values()} == {7}
    assert {row.finished for row in by_level(table).values()} == {8}


def test_one_factor_at_a_time_has_one_baseline_row(small_study):
    table = study_table(*small_study)
    assert [row.is_baseline for row in table.rows] == [True, False, False, False, False]
    assert table.rows[0].axis == ""
    assert len(table.rows[0].runs) == 8


def test_a_factorial_study_averages_over_contexts_and_counts_seeds():
    axes = {"design.norm_position": ["pre", "post"], "dims.n_heads": [4, 8]}
    seeds = list(range(1, 9))
    expected = factorial_cells(axes, seeds)
    frame = ledger_frame(expected, planted({NORM: -2.0}))
    table = study_table(frame, view(expected, axes))
    assert [row.is_baseline for row in table.rows] == [True, False, True, False]
    row = by_level(table)[NORM]
    assert (row.finished, row.seeds_compared) == (16, 8)
    assert row.verdict is Verdict.worse
    bleu = frame[frame["metric"] == "bleu"]
    means = bleu.pivot_table(index="seed", columns="design.norm_position", values="value")
    differences = means["post"] - means["pre"]
    assert row.difference.mean == pytest.approx(differences.mean(), abs=1e-9)
    assert row.difference.sd == pytest.approx(differences.std(ddof=1), abs=1e-9)
    assert any("averaged over their levels" in note for note in table.notes)


def test_a_combination_the_plan_dropped_is_left_out_of_the_comparison():
    axes = {"design.position": ["sinusoidal", "rope"], "dims.n_heads": [4, 16]}
    expected = factorial_cells(axes, [1, 2, 3])
    illegal = (expected["design.position"] == "rope") & (expected["dims.n_heads"] == 16)
    expected = expected[~illegal].reset_index(drop=True)
    frame = ledger_frame(expected, planted({("dims.n_heads", 16): -5.0}))
    table = study_table(frame, view(expected, axes))
    row = by_level(table)[ROPE]
    assert len(row.runs) == len(row.baseline_runs) == 3
    assert abs(row.difference.mean) < 1


def test_a_level_that_was_never_planned_is_named(small_study):
    frame, study = small_study
    axes = {**AXES, "dims.n_heads": [4, 8, 5]}
    table = study_table(frame, view(study.expected, axes))
    assert "No planned run, so no row: dims.n_heads=5." in table.notes


def test_a_study_of_seeds_alone_is_a_baseline_row():
    expected = one_factor_cells({}, [1, 2, 3])
    table = study_table(ledger_frame(expected, planted({})), view(expected, {}))
    assert [row.verdict_text for row in table.rows] == ["baseline"]
    assert table.rows[0].mean.n == 3


def test_every_row_names_its_runs(small_study):
    frame, study = small_study
    table = study_table(frame, study)
    for (axis, level), row in by_level(table).items():
        at_level = study.expected[study.expected[axis] == level]
        assert list(row.runs) == list(at_level["id"])
        assert row.baseline_runs == table.rows[0].runs


def test_the_order_of_the_ledger_does_not_matter(small_study):
    frame, study = small_study
    shuffled = frame.sample(frac=1, random_state=1)
    pd.testing.assert_frame_equal(
        study_table(frame, study).frame, study_table(shuffled, study).frame
    )


def test_notes_name_what_a_reader_must_know(small_study):
    frame, study = small_study
    run = study.expected["id"].iloc[0]
    frame = frame[~((frame["run"] == run) & (frame["metric"] == "bleu"))].copy()
    frame.loc[frame["run"] == study.expected["id"].iloc[5], "hardware"] = "a GPU"
    notes = study_table(frame, study).notes
    assert f"Finished without a finite bleu on test: {run}." in notes
    assert "Seconds are from unlike machines: 2 CPU cores, a GPU." in notes
    assert notes[0] == (
        "Baseline: design.norm_position=pre, design.position=sinusoidal, dims.n_heads=4; "
        "1000 updates a run."
    )


def test_a_budget_axis_is_noted():
    axes = {"budget.max_steps": [1000, 2000]}
    expected = one_factor_cells(axes, [1, 2])
    table = study_table(ledger_frame(expected, planted({})), view(expected, axes))
    assert "Budget or data differ by design along budget.max_steps." in table.notes


def test_the_interval_and_its_p_are_those_of_statsmodels_on_a_fixed_frame():
    expected = one_factor_cells(AXES, list(range(1, 10)))
    frame = ledger_frame(expected, planted({ROPE: 0.2}, noise=0.3))
    row = by_level(study_table(frame, view(expected)))[ROPE]
    scores = frame[frame["metric"] == "bleu"].set_index("run")["value"]
    paired = DescrStatsW(
        scores[list(row.runs)].to_numpy() - scores[list(row.baseline_runs)].to_numpy()
    )
    assert (row.difference.low, row.difference.high) == pytest.approx(
        paired.tconfint_mean(), abs=1e-8
    )
    assert row.difference.sd == pytest.approx(paired.std_mean * 3, abs=1e-8)


def test_the_noise_floor_and_the_bootstrap_stand_in_the_notes(small_study):
    frame, study = small_study
    table = study_table(frame, study)
    values = frame[(frame["metric"] == "bleu") & frame["run"].isin(table.rows[0].runs)]["value"]
    reach = statistics.noise_floor(values).difference
    assert any(f"differ by up to {reach:.2f} by their seeds" in note for note in table.notes)
    assert "Cross-check of Δ by BCa bootstrap (95%, in the CSV): it agrees about 0." in table.notes
    line = table.frame.loc[table.frame["level"] == "post"].iloc[0]
    assert line["difference_bca_low"] < -2 < line["difference_bca_high"]


def test_an_effect_that_matters_is_given_the_seeds_that_show_it(small_study):
    frame, study = small_study
    table = study_table(frame, view(study.expected, effect=0.1))
    row = by_level(table)[HEADS]
    needed = statistics.seeds_needed(0.1, row.difference.sd, alpha=0.05 / 4)
    (note,) = [note for note in table.notes if note.startswith("Seeds that would show")]
    assert f"dims.n_heads=8 {needed}" in note
    tiny = study_table(frame, view(study.expected, effect=1e-6))
    assert any("dims.n_heads=8 over 1,000,000" in note for note in tiny.notes)

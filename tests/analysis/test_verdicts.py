import math

import numpy as np
import pandas as pd
import pytest

from analysis import statistics
from analysis.claim_tables import effect_text, found_text
from analysis.verdicts import ClaimVerdict, Question, answer, overall, settle
from tests.analysis.ledgers import (
    AXES,
    factorial_cells,
    ledger_frame,
    one_factor_cells,
    planted,
    view,
)

CONFIRMED, REFUTED = ClaimVerdict.confirmed, ClaimVerdict.refuted
OPEN, NOT_RUN = ClaimVerdict.not_distinguishable, ClaimVerdict.not_run
POST = ("design.norm_position", "post")
SEEDS = list(range(1, 11))


def asked(study, axis, level, claimed, smallest=0.5, **options):
    return Question(
        study=study, axis=axis, level=level, claimed=claimed, smallest=smallest, **options
    )


def found(effects, claimed, *, level=POST, seeds=SEEDS, noise=0.1, smallest=0.5):
    expected = one_factor_cells(AXES, seeds)
    frame = ledger_frame(expected, planted(effects, noise=noise))
    return answer(frame, asked(view(expected), *level, claimed, smallest))


@pytest.mark.parametrize(
    ("effect", "claimed", "verdict"),
    [
        (-2.0, "worse", CONFIRMED),
        (-2.0, "better", REFUTED),
        (-2.0, "equal", REFUTED),
        (0.0, "worse", REFUTED),
        (0.0, "better", REFUTED),
        (0.0, "equal", CONFIRMED),
        (2.0, "better", CONFIRMED),
        (0.2, "better", REFUTED),  # there is a difference, but not one that would matter
        (0.2, "equal", CONFIRMED),
    ],
)
def test_planted_effects_get_the_right_verdict(effect, claimed, verdict):
    assert found({POST: effect}, claimed).verdict is verdict


@pytest.mark.parametrize("claimed", ["better", "worse", "equal"])
def test_noise_and_few_seeds_are_said_to_tell_nothing(claimed):
    noisy = found({POST: -0.3}, claimed, noise=3.0)
    assert noisy.verdict is OPEN
    assert 0.5 < noisy.detectable < math.inf
    assert noisy.seeds_needed > 10
    few = found({POST: -20.0}, claimed, seeds=[1, 2, 3, 4, 5])
    assert few.verdict is OPEN
    assert few.detectable == math.inf


def test_a_loss_is_better_when_lower():
    expected = one_factor_cells(AXES, SEEDS)
    frame = ledger_frame(expected, planted({POST: -2.0}))  # 100 minus the score: 2 higher
    study = view(expected, metric="loss", split="validation")
    assert answer(frame, asked(study, *POST, "worse")).verdict is CONFIRMED
    assert answer(frame, asked(study, *POST, "better")).verdict is REFUTED


def test_higher_and_lower_are_of_the_number_itself():
    expected = one_factor_cells(AXES, SEEDS)
    frame = ledger_frame(expected, planted({POST: -2.0}))
    loss = view(expected, metric="loss", split="validation")
    assert answer(frame, asked(loss, *POST, "higher")).verdict is CONFIRMED
    assert answer(frame, asked(view(expected), *POST, "lower")).verdict is CONFIRMED
    assert answer(frame, asked(view(expected), *POST, "higher")).verdict is REFUTED


def test_error_rates_at_the_edges_are_at_most_five_percent():
    """No effect is called one, and an effect that matters is called none, in at most 1 of 20."""
    noise = np.random.default_rng(5).normal(0, 0.5, size=(1000, 8))
    nothing = [settle(draw, 1, smallest=0.5) for draw in noise]
    edge = [settle(draw + 0.5, 1, smallest=0.5) for draw in noise]
    equal = [settle(draw + 0.5, 0, smallest=0.5) for draw in noise]
    assert np.mean([one is CONFIRMED for one in nothing]) <= 0.05
    assert np.mean([one is REFUTED for one in edge]) <= 0.05
    assert np.mean([one is CONFIRMED for one in equal]) <= 0.05
    assert np.mean([one is CONFIRMED for one in edge]) > 0.5
    assert np.mean([one is REFUTED for one in nothing]) > 0.5


def test_several_comparisons_are_each_tested_more_strictly():
    draw = np.array([0.1, 0.2, 0.3, 0.2, 0.1, 0.4])  # p = 2/64
    assert settle(draw, 1, smallest=0.1, alpha=0.05) is CONFIRMED
    assert settle(draw, 1, smallest=0.1, alpha=0.025) is OPEN


def test_the_level_of_a_question_is_that_of_its_test():
    expected = one_factor_cells(AXES, SEEDS[:6])  # p = 2/64
    frame = ledger_frame(expected, planted({POST: -2.0}))
    asked_at = {
        alpha: answer(frame, asked(view(expected), *POST, "worse", alpha=alpha)).verdict
        for alpha in (0.05, 0.025)
    }
    assert asked_at == {0.05: CONFIRMED, 0.025: OPEN}


def test_a_general_statement_falls_with_one_counter_example():
    assert overall([CONFIRMED, REFUTED, OPEN]) is REFUTED
    assert overall([CONFIRMED, OPEN, NOT_RUN]) is OPEN
    assert overall([CONFIRMED, NOT_RUN]) is CONFIRMED
    assert overall([NOT_RUN]) is overall([]) is NOT_RUN


def test_only_runs_at_the_asked_for_levels_count():
    axes = {"design.norm_position": ["pre", "post"], "optim.lr": [0.003, 0.01]}
    expected = factorial_cells(axes, SEEDS)
    score = planted({})

    def both(cell):
        return score(cell) - 3 * (cell["design.norm_position"] == "post") * (
            cell["optim.lr"] == 0.01
        )

    frame, study = ledger_frame(expected, both), view(expected, axes)
    high = answer(frame, asked(study, *POST, "worse", at={"optim.lr": 0.01}))
    low = answer(frame, asked(study, *POST, "worse", at={"optim.lr": 0.003}))
    assert (high.verdict, low.verdict) == (CONFIRMED, REFUTED)
    assert high.effect.mean == pytest.approx(-3, abs=0.2)


def test_a_split_is_compared_with_another_of_the_same_runs():
    expected = one_factor_cells(AXES, SEEDS)
    frame = ledger_frame(expected, planted({}))
    longer = frame[frame["metric"] == "bleu"].assign(split="longer")
    longer["value"] -= 5 + 0.1 * (longer["seed"] % 3)
    study = view(expected, split="longer")
    both = pd.concat([frame, longer])
    question = asked(study, "design.norm_position", "pre", "equal", against="test")
    result = answer(both, question)
    assert result.verdict is REFUTED
    assert result.effect.mean == pytest.approx(-5.1, abs=0.1)
    assert result.effect.n == len(SEEDS)
    alone = expected[[not changes for changes in expected["changes"]]].reset_index(drop=True)
    everything = asked(view(alone, {}, split="longer"), "", "", "lower", against="test")
    assert answer(both, everything).verdict is CONFIRMED


def test_a_level_that_never_finishes_is_compared_by_its_divergence():
    expected = one_factor_cells(AXES, SEEDS)
    score = planted({})
    frame = ledger_frame(
        expected, lambda cell: math.nan if cell[POST[0]] == "post" else score(cell)
    )
    result = answer(frame, asked(view(expected), *POST, "worse"))
    assert (result.verdict, result.diverged, result.diverging) == (CONFIRMED, 10, True)
    assert result.effect.mean == 1
    assert "rate of divergence" in effect_text(result)
    assert answer(frame, asked(view(expected), *POST, "better")).verdict is REFUTED


def test_seeds_for_rates_of_divergence_are_those_that_show_half_of_the_runs():
    expected = one_factor_cells(AXES, SEEDS)
    score = planted({})

    def ended(cell):
        at_post = cell[POST[0]] == "post"
        return math.nan if at_post or cell["seed"] > 2 else score(cell)

    question = asked(view(expected), *POST, "worse", smallest=0.01)  # of the metric
    result = answer(ledger_frame(expected, ended), question)
    assert (result.diverging, result.smallest) == (True, 0.5)
    assert result.seeds_needed == statistics.seeds_needed(0.5, result.effect.sd)


def test_single_divergences_are_counted_beside_the_difference():
    expected = one_factor_cells(AXES, SEEDS)
    score = planted({POST: -2.0})
    frame = ledger_frame(
        expected,
        lambda cell: math.nan if cell[POST[0]] == "post" and cell["seed"] == 3 else score(cell),
    )
    result = answer(frame, asked(view(expected), *POST, "worse"))
    assert (result.effect.n, result.diverged, result.verdict) == (9, 1, CONFIRMED)


def test_what_is_missing_is_not_run():
    expected = one_factor_cells(AXES, SEEDS)
    frame = ledger_frame(expected, planted({}))
    gone = expected.loc[expected[POST[0]] == "post", "id"]
    result = answer(frame[~frame["run"].isin(gone)], asked(view(expected), *POST, "worse"))
    assert (result.verdict, result.effect.n) == (NOT_RUN, 0)
    assert set(result.missing) == set(gone)
    question = asked(view(expected), *POST, "worse")
    assert found_text(question, result) == "10 runs missing"


def test_words_say_what_the_seeds_could_have_shown():
    result = found({POST: -0.3}, "worse", noise=3.0)
    expected = one_factor_cells(AXES, SEEDS)
    words = found_text(asked(view(expected), *POST, "worse"), result)
    assert f"could have shown {result.detectable:.2g}" in words
    assert f"0.5 takes {result.seeds_needed} seeds" in words

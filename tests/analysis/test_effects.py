import io
import math

import pandas as pd
import pytest
from statsmodels.formula.api import ols

from analysis import statistics
from analysis.effects import dependencies, study_effects
from analysis.effects_rendering import render
from analysis.interaction_plots import interaction_figure, save_interactions
from tests.analysis.ledgers import (
    AXES,
    factorial_cells,
    ledger_frame,
    one_factor_cells,
    planted,
    view,
)

CHOICES = {
    "design.norm_position": ["pre", "post"],
    "optim.warmup_steps": [100, 0],
    "dims.n_heads": [4, 8],
}
POST, COLD = ("design.norm_position", "post"), ("optim.warmup_steps", 0)
SEEDS = list(range(1, 11))


def joint(size: float, **options: float):
    """Post-norm costs 1 everywhere, and `size` more without a warm-up."""
    score = planted({POST: -1.0}, **options)

    def scored(cell):
        both = cell["design.norm_position"] == "post" and cell["optim.warmup_steps"] == 0
        return score(cell) + size * both

    return scored


def made(score, *, axes=CHOICES, seeds=SEEDS, drop=lambda expected: expected["seed"] < 0):
    expected = factorial_cells(axes, seeds)
    expected = expected[~drop(expected)].reset_index(drop=True)
    return ledger_frame(expected, score), view(expected, axes)


def row(effects, *names):
    rows = effects.contrasts
    wanted = (*names, "", None)[:4] if len(names) == 2 else names
    for _, line in rows.iterrows():
        if (line["axis"], line["level"], line["given"], line["given_level"]) == wanted:
            return line
    raise AssertionError(f"no row {wanted}")


@pytest.fixture(scope="module")
def interacting():
    return study_effects(*made(joint(-2.0, noise=0.2)))


def test_a_planted_interaction_is_found_and_nothing_else(interacting):
    found = interacting.contrasts.set_index(["axis", "given"])["verdict"].to_dict()
    assert found == {
        ("design.norm_position", ""): "worse",
        ("optim.warmup_steps", ""): "worse",
        ("dims.n_heads", ""): "not distinguishable",
        ("design.norm_position", "optim.warmup_steps"): "depends",
        ("design.norm_position", "dims.n_heads"): "not distinguishable",
        ("optim.warmup_steps", "dims.n_heads"): "not distinguishable",
    }
    interaction = row(interacting, *POST, *COLD)
    assert interaction["low"] <= -2.0 <= interaction["high"]
    main = row(interacting, *POST)
    assert main["low"] <= -2.0 <= main["high"]  # -1 with a warm-up and -3 without, on average


def test_without_a_planted_interaction_effects_add_up():
    effects = study_effects(*made(joint(0.0, noise=0.2)))
    rows = effects.contrasts
    assert set(rows.loc[rows["kind"] == "interaction", "verdict"]) == {"not distinguishable"}
    assert row(effects, *POST)["verdict"] == "worse"


def test_what_depends_on_what_is_said_with_the_effect_at_each_level(interacting):
    (sentence,) = [s for s in dependencies(interacting) if "warmup" in s]
    assert sentence.startswith("design.norm_position=post on optim.warmup_steps: ")
    assert sentence.endswith(" at 0 (depends)")
    at = interacting.conditional
    chosen = at[(at["axis"] == POST[0]) & (at["given"] == COLD[0])].set_index("given_level")
    assert chosen.loc[100, "difference"] == pytest.approx(-1, abs=0.3)
    assert chosen.loc[0, "difference"] == pytest.approx(-3, abs=0.3)
    assert f"{chosen.loc[0, 'difference']:+.2f}" in sentence
    assert sentence.count("depends") == 1  # at the level that is compared with the first one


def test_an_axis_of_many_levels_makes_one_sentence():
    score = planted({}, noise=0.2)

    def scored(cell):
        return score(cell) - cell["dims.n_heads"] * (cell["design.norm_position"] == "post")

    axes = {"design.norm_position": ["pre", "post"], "dims.n_heads": [2, 4, 8]}
    found = dependencies(study_effects(*made(scored, axes=axes)))
    (sentence,) = [s for s in found if s.startswith("design.norm_position=post on dims.n_heads: ")]
    at_levels = [part.split(" at ")[1] for part in sentence.split(", ") if " at " in part]
    assert at_levels == ["2", "4 (depends)", "8 (depends)"]


def test_effects_are_those_of_a_least_squares_fit_of_statsmodels():
    frame, study = made(joint(-2.0, noise=0.5), seeds=[1, 2, 3, 4, 5])
    effects = study_effects(frame, study)
    scores = frame[frame["metric"] == "bleu"]
    data = scores.rename(columns={POST[0]: "norm", COLD[0]: "warmup", "dims.n_heads": "heads"})
    fit = ols("value ~ C(seed) + (C(norm, Sum) + C(warmup, Sum) + C(heads, Sum))**2", data).fit()
    # Sum contrasts are half the distance of two levels; levels in sorted order: post, 0, 4 first.
    post, cold = "C(norm, Sum)[post]", "C(warmup, Sum)[0]"
    names = {name.replace("S.", ""): value for name, value in fit.params.items()}
    assert row(effects, *POST)["difference"] == pytest.approx(2 * names[post], abs=1e-8)
    assert row(effects, *COLD)["difference"] == pytest.approx(2 * names[cold], abs=1e-8)
    interaction = row(effects, *POST, *COLD)["difference"]
    assert interaction == pytest.approx(4 * names[f"{post}:{cold}"], abs=1e-8)


def test_the_shares_of_the_spread_are_those_of_the_planted_effects(interacting):
    shares = interacting.importance.set_index("term")
    assert shares["share"].sum() == pytest.approx(1)
    assert shares["fanova"].sum() == pytest.approx(1)
    assert shares.loc["dims.n_heads", "share"] < 0.01
    pair = shares.loc["design.norm_position x optim.warmup_steps"]
    assert pair["p_f"] < 1e-6
    # Contrasts -2, -1 and -2 of 80 runs: sums of squares 80, 20 and 20.
    assert pair["sum_sq"] == pytest.approx(20, rel=0.3)
    assert shares.loc[POST[0], "sum_sq"] == pytest.approx(80, rel=0.2)
    assert shares.loc[POST[0], "fanova"] > shares.loc[COLD[0], "fanova"] > 0.1


def test_effects_and_interactions_are_one_family(interacting):
    rows = interacting.contrasts
    assert len(rows) == 6
    assert rows["p_holm"].to_numpy() == pytest.approx(statistics.holm(rows["p"]))
    assert (rows["p_holm"] > rows["p"]).any()


def test_what_seeds_differ_by_is_no_importance_of_a_choice():
    shares = [
        study_effects(*made(planted({POST: -1.0}, noise=0.2, seed_noise=spread))).importance
        for spread in (0.0, 5.0)
    ]
    found = [table.set_index("term")["fanova"].dropna() for table in shares]
    assert found[1].to_dict() == pytest.approx(found[0].to_dict(), abs=0.01)


def test_a_diverged_cell_costs_its_pairs_and_is_counted():
    score = joint(-2.0, noise=0.2)

    def diverging(cell):
        gone = cell["optim.warmup_steps"] == 0 and cell["design.norm_position"] == "post"
        return math.nan if gone and cell["seed"] <= 2 and cell["dims.n_heads"] == 8 else score(cell)

    effects = study_effects(*made(diverging))
    interaction = row(effects, *POST, *COLD)
    assert (interaction["seeds_compared"], interaction["diverged"]) == (10, 2)
    assert row(effects, *POST, "dims.n_heads", 8)["seeds_compared"] == 10
    assert any("2 runs diverged" in note for note in effects.notes)


def test_a_combination_that_always_diverges_has_no_interaction_and_no_variance_table():
    score = joint(0.0)

    def diverging(cell):
        gone = cell["optim.warmup_steps"] == 0 and cell["design.norm_position"] == "post"
        return math.nan if gone else score(cell)

    effects = study_effects(*made(diverging))
    assert math.isnan(row(effects, *POST, *COLD)["difference"])
    assert any(note.startswith("No analysis of variance: ") for note in effects.notes)
    assert effects.importance["fanova"].sum() == pytest.approx(1)


def test_a_dropped_combination_is_left_out():
    def illegal(expected):
        return (expected["dims.n_heads"] == 8) & (expected["optim.warmup_steps"] == 0)

    effects = study_effects(*made(joint(0.0, noise=0.2), drop=illegal))
    pairs = set(zip(effects.contrasts["axis"], effects.contrasts["given"], strict=True))
    assert ("optim.warmup_steps", "dims.n_heads") not in pairs
    assert row(effects, *POST, "dims.n_heads", 8)["seeds_compared"] == 10


def test_five_seeds_earn_no_verdict():
    effects = study_effects(*made(joint(-20.0), seeds=[1, 2, 3, 4, 5]))
    assert set(effects.contrasts["verdict"]) == {"n too small to tell"}
    assert any("at least 8 compared seeds" in note for note in effects.notes)


def test_missing_runs_are_named_with_the_command():
    frame, study = made(joint(0.0), seeds=[1, 2, 3])
    effects = study_effects(frame[frame["run"] != study.expected["id"].iloc[0]], study)
    assert effects.headline == "incomplete: 1 of 24 runs missing; fill with: ablate sweep six-axes"


def test_a_study_of_one_factor_at_a_time_is_refused():
    expected = one_factor_cells(AXES, [1, 2])
    with pytest.raises(ValueError, match="nothing in it shows whether two choices interact"):
        study_effects(ledger_frame(expected, planted({})), view(expected))


def test_forms_hold_the_same_numbers(interacting):
    terminal, markdown = (render(interacting, format=name) for name in ("terminal", "markdown"))
    shown = f"{row(interacting, *POST)['difference']:+.2f}"
    assert shown in terminal
    assert shown in markdown
    assert "| design.norm_position=post | optim.warmup_steps=0 |" in markdown
    csv = render(interacting, format="csv")
    table = pd.read_csv(io.StringIO(csv))
    assert set(table["kind"]) == {"main", "interaction", "conditional", "variance"}
    first = table.loc[table["kind"] == "main", "difference"].iloc[0]
    assert first == pytest.approx(row(interacting, *POST)["difference"])
    with pytest.raises(ValueError, match="legal: terminal, markdown, latex, html, csv"):
        render(interacting, format="pdf")


def test_the_figure_has_a_panel_for_each_pair_of_axes_and_its_frame_beside_it(
    interacting, tmp_path
):
    panels = [axes for axes in interaction_figure(interacting).axes if axes.get_visible()]
    assert [axes.get_xlabel() for axes in panels] == [
        "optim.warmup_steps",
        "dims.n_heads",
        "dims.n_heads",
    ]
    picture = save_interactions(interacting, folder=tmp_path)
    assert picture.read_bytes()[:4] == b"\x89PNG"
    saved = pd.read_csv(tmp_path / "interactions.csv")
    assert len(saved) == 12
    assert saved["mean"].iloc[0] == pytest.approx(interacting.means["mean"].iloc[0])

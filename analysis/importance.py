"""How much of the spread of a factorial study each choice makes: two analyses of variance.

The first is the classical one, type II, of a least squares fit with seeds as blocks and all
two-way interactions (statsmodels); its F tests take the noise to be normal and equal in all cells.
The second is the functional one of optuna, from a random forest, which takes neither; it is seeded.
"""

import warnings

import numpy as np
import pandas as pd

from analysis.frames import StudyView
from analysis.metrics import metric_of
from analysis.trials import level_choices

COLUMNS = ("term", "df", "sum_sq", "f", "p_f", "share", "fanova")
SEED, RESIDUAL = "seed", "residual"


def importance_frame(cells: pd.DataFrame, study: StudyView) -> tuple[pd.DataFrame, list[str]]:
    """Shares of the spread by axis and pair of axes, and why some of them are absent.

    Args:
        cells: from `frames.study_cells`.
        study: the plan.

    Returns:
        `term` (an axis, two joined by " x ", seed, residual), `df`, `sum_sq`, `f`, its `p_f`,
        `share` of the total sum of squares, and `fanova`, the importance of an axis among the
        axes (1 in all); then sentences on what could not be computed.
    """
    scored = cells[cells["value"].notna()]
    varied = [axis for axis in study.axes if scored[axis].astype(str).nunique() > 1]
    notes: list[str] = []
    table, reason = _variance(scored, varied)
    if reason:
        notes.append(f"No analysis of variance: {reason}.")
    importance = _functional(scored, varied, study)
    table["fanova"] = table["term"].map(importance).astype(float)
    if not table["fanova"].notna().any() and importance:
        rows = pd.DataFrame({"term": list(importance), "fanova": list(importance.values())})
        table = rows.reindex(columns=list(COLUMNS))
    return table[list(COLUMNS)].reset_index(drop=True), notes


def _variance(scored: pd.DataFrame, axes: list[str]) -> tuple[pd.DataFrame, str]:
    """The classical analysis of variance, or an empty frame and why."""
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    empty = pd.DataFrame(columns=list(COLUMNS))
    if len(axes) < 2 or scored["seed"].nunique() < 2:
        return empty, "it takes two axes and two seeds with finished runs"
    names = {f"axis_{index}": axis for index, axis in enumerate(axes)}
    data = pd.DataFrame({short: scored[axis].astype(str) for short, axis in names.items()})
    data = data.assign(value=scored["value"].astype(float), seed=scored["seed"].astype(str))
    model = ols(f"value ~ C(seed) + ({' + '.join(f'C({short})' for short in names)})**2", data)
    runs, columns = model.exog.shape
    if np.linalg.matrix_rank(model.exog) < columns or runs <= columns:
        return empty, "combinations are missing, so that effects cannot be told apart"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no residue: F is infinite, and shown so
        table = anova_lm(model.fit(), typ=2)
    table = table.rename(columns={"F": "f", "PR(>F)": "p_f"})
    terms = [_term(str(name), names) for name in table.index]
    share = table["sum_sq"] / table["sum_sq"].sum()
    return table.assign(term=terms, share=share).reset_index(drop=True), ""


def _term(name: str, names: dict[str, str]) -> str:
    if name == "Residual":
        return RESIDUAL
    parts = [part.removeprefix("C(").removesuffix(")") for part in name.split(":")]
    return " x ".join(names.get(part, part) for part in parts)


def _functional(scored: pd.DataFrame, axes: list[str], study: StudyView) -> dict[str, float]:
    """Importance by axis of a random forest, with each seed's mean taken off."""
    if not axes or len(scored) < 2:
        return {}
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        higher = metric_of(study.metric).higher_is_better
        trials = optuna.create_study(direction="maximize" if higher else "minimize")
        centred = scored["value"] - scored.groupby("seed")["value"].transform("mean")
        choices = level_choices({axis: sorted(set(scored[axis].astype(str))) for axis in axes})
        for (_, row), value in zip(scored[axes].iterrows(), centred, strict=True):
            chosen = {axis: str(row[axis]) for axis in axes}
            trials.add_trial(
                optuna.trial.create_trial(
                    params=chosen, distributions=dict(choices), value=float(value)
                )
            )
        if np.ptp(centred) == 0:
            return {}
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        return dict(optuna.importance.get_param_importances(trials, evaluator=evaluator))
    finally:
        optuna.logging.set_verbosity(verbosity)

"""Print how often the statistics are right, on ledgers whose truth is known.

    python -m benchmarks.calibration

Coverage of both intervals and of the noise floor, family-wise error of a table without effects,
and how often planted effects, interactions and divergences are found. About two minutes.
"""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from analysis import statistics
from analysis.bootstrap import bca_estimate_each
from analysis.tables import study_table
from tests.analysis.ledgers import ledger_frame, one_factor_cells, planted, view

DRAWS = 2_000
TABLES = 100
TRUTH, NOISE = 0.7, 0.4
LEVELS = [f"level_{index}" for index in range(13)]
AXES = {"design.choice": LEVELS}


def coverage(n: int) -> tuple[float, float]:
    """Shares of t and of BCa intervals over n seeds that hold the true difference."""
    draws = list(np.random.default_rng(n).normal(TRUTH, NOISE, size=(DRAWS, n)))
    student = [statistics.t_estimate(draw) for draw in draws]
    bootstrap = bca_estimate_each(draws, resamples=1_999)
    shares = [
        float(np.mean([one.low <= TRUTH <= one.high for one in found]))
        for found in (student, bootstrap)
    ]
    return shares[0], shares[1]


def family_wise_error(n: int) -> float:
    """Share of tables of twelve levels without any effect in which some level gets a verdict."""
    runs = np.random.default_rng(n).normal(size=(DRAWS, 13, n))
    p_values = statistics.sign_flip_p(runs[:, 1:] - runs[:, :1])
    # The smallest adjusted p is twelve times the smallest p: only these tables can have a verdict.
    candidates = p_values[p_values.min(axis=1) <= statistics.ALPHA / 12]
    wrong = sum((statistics.holm(table) <= statistics.ALPHA).any() for table in candidates)
    return wrong / DRAWS


def planted_in_tables() -> dict[str, float]:
    """Through whole ledgers: what tables say of two planted levels, the others, and divergence."""
    effects = {("design.choice", LEVELS[1]): -1.0, ("design.choice", LEVELS[2]): 1.0}
    expected = one_factor_cells(AXES, list(range(1, 13)))
    counts = dict.fromkeys(("worse found", "better found", "false verdicts", "diverged counted"), 0)
    for seed in range(TABLES):
        score = planted(effects, noise=0.4, seed=seed)
        frame = ledger_frame(expected, _two_diverge(score))
        rows = {row.level: row for row in study_table(frame, view(expected, AXES)).rows}
        counts["worse found"] += rows[LEVELS[1]].verdict is statistics.Verdict.worse
        counts["better found"] += rows[LEVELS[2]].verdict is statistics.Verdict.better
        counts["diverged counted"] += "2 of 12 diverged" in rows[LEVELS[3]].verdict_text
        counts["false verdicts"] += any(
            rows[level].verdict in (statistics.Verdict.worse, statistics.Verdict.better)
            for level in LEVELS[3:]
        )
    return {name: count / TABLES for name, count in counts.items()}


def _two_diverge(score: Callable[[pd.Series], float]) -> Callable[[pd.Series], float]:
    """The score, but for two seeds of a level without an effect."""

    def found(cell: pd.Series) -> float:
        if cell["design.choice"] == LEVELS[3] and cell["seed"] <= 2:
            return math.nan
        return score(cell)

    return found


def main() -> None:
    """Print the rates."""
    print(f"{DRAWS} draws: share of 95% intervals that hold the truth")
    for n in (5, 8, 20):
        student, bootstrap = coverage(n)
        print(f"  n = {n:>2}: t {student:.1%}, BCa {bootstrap:.1%}")
    print(f"{DRAWS} tables of 12 levels without effect: share with any verdict (at most 5%)")
    for n in (5, 8, 9, 12):
        print(f"  n = {n:>2}: {family_wise_error(n):.1%}")
    print(f"{TABLES} ledgers of 12 levels and 12 seeds, effects of 2.5 run standard deviations")
    for name, rate in planted_in_tables().items():
        print(f"  {name}: {rate:.0%}")


if __name__ == "__main__":
    main()

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import DescrStatsW

from analysis import statistics
from analysis.bootstrap import bca_estimate
from analysis.statistics import Verdict

DIFFERENCES = np.array([1.0, 2.0, 1.5, -0.5, 1.0])


def test_t_estimate_matches_the_textbook_on_fixed_numbers():
    estimate = statistics.t_estimate(DIFFERENCES)
    # Mean 1; squared deviations 0 + 1 + .25 + 2.25 + 0 = 3.5; t(.975, 4) = 2.7764451052.
    reach = 2.7764451051977987 * math.sqrt(3.5 / 4) / math.sqrt(5)
    assert estimate.mean == pytest.approx(1.0, abs=1e-8)
    assert estimate.sd == pytest.approx(math.sqrt(3.5 / 4), abs=1e-8)
    assert (estimate.low, estimate.high) == pytest.approx((1 - reach, 1 + reach), abs=1e-8)
    assert estimate.n == 5


def test_t_estimate_matches_statsmodels():
    numbers = np.random.default_rng(1).normal(34, 0.4, size=9)
    estimate = statistics.t_estimate(numbers)
    expected = DescrStatsW(numbers).tconfint_mean()
    assert (estimate.low, estimate.high) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("estimator", [statistics.t_estimate, bca_estimate])
def test_estimates_of_few_or_equal_numbers(estimator):
    assert math.isnan(estimator([]).mean)
    one = estimator([3.0])
    assert (one.mean, one.n) == (3.0, 1)
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    equal = estimator([2.0, 2.0, 2.0])
    assert (equal.low, equal.high, equal.sd) == (2.0, 2.0, 0.0)


@pytest.mark.parametrize("n", [5, 8, 20])
def test_t_interval_covers_the_truth_93_to_97_times_in_100(n):
    draws = np.random.default_rng(n).normal(0.7, 0.4, size=(2000, n))
    estimates = [statistics.t_estimate(draw) for draw in draws]
    covered = np.mean([estimate.low <= 0.7 <= estimate.high for estimate in estimates])
    assert 0.93 <= covered <= 0.97


def test_sign_flip_p_by_hand():
    # The 32 signed sums reach 5 twice (5 itself, and 6 with the -.5 flipped): p = 2 * 2/32.
    assert statistics.sign_flip_p(DIFFERENCES) == pytest.approx(0.125, abs=1e-12)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_sign_flip_p_matches_brute_force(n):
    differences = np.random.default_rng(n).normal(0.3, 1, size=n)
    signs = np.array(list(itertools.product([1, -1], repeat=n)))
    sums = signs @ differences
    count = min((sums >= sums[0] - 1e-12).sum(), (sums <= sums[0] + 1e-12).sum())
    assert statistics.sign_flip_p(differences) == pytest.approx(min(1, 2 * count / 2**n), abs=1e-12)


@pytest.mark.parametrize("n", [2, 6, 12, 15])
def test_sign_flip_p_is_that_of_scipy(n):
    differences = np.random.default_rng(n).normal(0.3, 1, size=(3, n))
    expected = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", axis=-1, n_resamples=np.inf
    )
    assert statistics.sign_flip_p(differences) == pytest.approx(expected.pvalue, abs=1e-12)


def test_sums_that_differ_by_rounding_alone_are_ties():
    tenths = np.array([-8, -9, -6, 6, 3, 8])
    signs = np.array(list(itertools.product([1, -1], repeat=6)))
    expected = (np.abs(signs @ tenths) >= abs(tenths.sum())).mean()
    assert statistics.sign_flip_p(tenths / 10) == expected


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 12, 13, 15, 16, 20])
def test_smallest_p_is_what_one_sided_data_gets(n):
    p = statistics.sign_flip_p(np.linspace(1, 2, n))
    if n <= statistics.EXACT_UP_TO:
        assert p == pytest.approx(statistics.smallest_p(n), abs=1e-12)
    else:  # A drawn flip may hit the identity, with probability 1/2^n each.
        assert statistics.smallest_p(n) <= p <= 6 / 2**n + statistics.smallest_p(n) * 3


def test_five_seeds_cannot_reach_five_percent_and_six_can():
    assert statistics.smallest_p(5) == 0.0625
    assert statistics.smallest_p(6) == 0.03125


def test_zero_differences_are_no_evidence():
    assert statistics.sign_flip_p(np.zeros(6)) == 1.0


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_no_number_has_no_p(number):
    with pytest.raises(AssertionError, match="p would be 0"):
        statistics.sign_flip_p([1.0, 2.0, number])


def test_rows_of_unlike_lengths_are_tested_as_each_alone():
    generator = np.random.default_rng(3)
    rows = [generator.normal(0.5, 1, size=n) for n in (5, 0, 8, 5, 1)]
    together = statistics.sign_flip_p_each(rows)
    alone = [float(statistics.sign_flip_p(row)) if len(row) else math.nan for row in rows]
    assert together == pytest.approx(alone, abs=1e-12, nan_ok=True)


def test_holm_by_hand():
    # Sorted .01, .02, .03, .2 times 4, 3, 2, 1 is .04, .06, .06, .2 and stays ascending.
    assert statistics.holm([0.02, 0.2, 0.01, 0.03]) == pytest.approx([0.06, 0.2, 0.04, 0.06])


@pytest.mark.parametrize("seed", range(5))
def test_holm_is_that_of_statsmodels(seed):
    p_values = np.round(np.random.default_rng(seed).uniform(0, 0.2, size=12), 2)
    expected = multipletests(p_values, method="holm")[1]
    assert statistics.holm(p_values) == pytest.approx(expected, abs=1e-12)


def test_holm_counts_tests_without_data():
    adjusted = statistics.holm([0.01, math.nan, math.nan])
    assert adjusted[0] == pytest.approx(0.03)
    assert np.isnan(adjusted[1:]).all()
    assert statistics.holm([]).size == 0


def test_critical_p_is_the_edge_of_rejection():
    p_values = np.array([0.01, 0.001, 0.5, 0.04])
    critical = statistics.critical_p(p_values)
    # Both .001 and .01 fall for themselves; the third and fourth then face .05/2.
    assert critical == pytest.approx([0.05 / 3, 0.05 / 3, 0.05 / 2, 0.05 / 2])
    for index, edge in enumerate(critical):
        for factor, rejected in ((0.999, True), (1.001, False)):
            moved = p_values.copy()
            moved[index] = edge * factor
            assert (statistics.holm(moved)[index] <= 0.05) == rejected


@pytest.mark.parametrize(
    ("p", "difference", "tellable", "higher_is_better", "verdict"),
    [
        (0.04, 1.0, True, True, Verdict.better),
        (0.04, -1.0, True, True, Verdict.worse),
        (0.04, 1.0, True, False, Verdict.worse),
        (0.04, -1.0, True, False, Verdict.better),
        (0.04, 1.0, True, None, Verdict.higher),
        (0.04, -1.0, True, None, Verdict.lower),
        (0.06, 1.0, True, None, Verdict.not_distinguishable),
        (0.06, 1.0, True, True, Verdict.not_distinguishable),
        (0.06, 1.0, False, True, Verdict.too_few_seeds),
        (math.nan, math.nan, False, True, Verdict.too_few_seeds),
    ],
)
def test_judge(p, difference, tellable, higher_is_better, verdict):
    judged = statistics.judge(p, difference, tellable=tellable, higher_is_better=higher_is_better)
    assert judged is verdict


def test_family_wise_error_of_twelve_levels_without_effect_is_at_most_five_percent():
    generator = np.random.default_rng(12)
    runs = generator.normal(size=(400, 13, 9)) + generator.normal(size=(400, 1, 9))
    differences = runs[:, 1:] - runs[:, :1]  # twelve levels share the baseline's runs
    p_values = statistics.sign_flip_p(differences)
    # The smallest adjusted p is twelve times the smallest p, so only these tables can have one.
    candidates = p_values[p_values.min(axis=1) <= 0.008]
    verdicts = sum((statistics.holm(row) <= 0.05).any() for row in candidates)
    assert 0 < verdicts / len(p_values) <= 0.05


def test_noise_floor_by_hand():
    floor = statistics.noise_floor([30.0, 31.0, 29.0, 30.0, 30.0])
    # Variance .5; chi2(.975, 4) = 11.143287, chi2(.025, 4) = .484419; t(.975, 4) = 2.776445.
    assert floor.sd == pytest.approx(math.sqrt(0.5), abs=1e-8)
    assert (floor.low, floor.high) == pytest.approx(
        (math.sqrt(2 / 11.143286782), math.sqrt(2 / 0.4844185571)), abs=1e-8
    )
    assert floor.difference == pytest.approx(2.7764451051977987, abs=1e-8)
    assert math.isnan(statistics.noise_floor([3.0]).difference)


@pytest.mark.parametrize("n", [5, 8, 20])
def test_two_further_runs_are_within_the_noise_floor_95_times_in_100(n):
    draws = np.random.default_rng(n).normal(30, 0.5, size=(2000, n + 2))
    inside = [abs(row[0] - row[1]) <= statistics.noise_floor(row[2:]).difference for row in draws]
    assert 0.93 <= np.mean(inside) <= 0.97


def test_detectable_effect_matches_statsmodels_and_scales_with_the_noise():
    size = TTestPower().solve_power(nobs=8, alpha=0.05, power=0.8)
    assert statistics.detectable_effect(1.0, 8) == pytest.approx(size, abs=1e-6)
    assert statistics.detectable_effect(0.3, 8) == pytest.approx(0.3 * size, abs=1e-6)


def test_detectable_effect_is_shown_eight_times_in_ten():
    effect = statistics.detectable_effect(1.0, 10)
    draws = np.random.default_rng(4).normal(effect, 1.0, size=(1000, 10))
    shown = np.mean(statistics.sign_flip_p(draws) <= 0.05)
    assert 0.75 <= shown <= 0.85


def test_nothing_is_detectable_with_too_few_seeds():
    assert statistics.detectable_effect(0.3, 5) == math.inf
    assert statistics.detectable_effect(0.3, 6) < math.inf
    assert statistics.detectable_effect(math.nan, 8) == math.inf
    assert statistics.detectable_effect(0.0, 8) == 0.0


@pytest.mark.parametrize(("effect", "sd"), [(1.0, 1.0), (-0.2, 0.5), (0.05, 0.6)])
def test_seeds_needed_is_the_first_n_with_the_power(effect, sd):
    n = statistics.seeds_needed(effect, sd)
    power = TTestPower().power
    assert power(abs(effect) / sd, n, 0.05) >= 0.8 > power(abs(effect) / sd, n - 1, 0.05)


def test_seeds_needed_never_goes_below_what_the_test_can_reach():
    assert statistics.seeds_needed(100.0, 0.1) == 6 == statistics.fewest_seeds(0.05)
    assert statistics.seeds_needed(1.0, 0.0, alpha=0.05 / 12) == 9
    assert statistics.seeds_needed(100.0, 0.1, alpha=0.05 / 12) == 9


@pytest.mark.parametrize(("effect", "words"), [(0.0, "effect is 0"), (1e-6, "over 1000000 seeds")])
def test_seeds_needed_refuses_the_impossible(effect, words):
    with pytest.raises(ValueError, match=words):
        statistics.seeds_needed(effect, 1.0)


def test_critical_p_of_an_empty_table_and_with_missing_data():
    assert statistics.critical_p([]).size == 0
    assert statistics.critical_p([math.nan, 0.001]) == pytest.approx([0.05, 0.025])


def test_a_table_of_few_seeds_loads_no_slow_library() -> None:
    code = (
        "import sys\nfrom analysis import judging, rendering, statistics, tables\n"
        "statistics.holm(statistics.sign_flip_p([[1.0, 2.0, 3.0]]))\n"
        "judging.bca_estimate_each([[1.0, 2.0, 3.0]])\n"
        "sys.exit(f'loaded: {found}' if (found := {'scipy.stats', 'statsmodels', 'torch'} "
        "& set(sys.modules)) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

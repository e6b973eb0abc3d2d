"""Statistics of paired seeds: intervals, an exact test, the correction, and what n can tell.

Everything here works on plain arrays of per-seed numbers. The interval printed in tables is the
t interval: over 2,000 normal draws it held the truth 96%, 95% and 96% of the time at n = 5, 8 and
20, the bootstrap of `analysis.bootstrap` 84%, 88% and 93%; `python -m benchmarks.calibration`
prints these rates and the error rates of whole tables.
The test is the sign-flip permutation test (Fisher, "The Design of Experiments", 1935): its
two-sided p cannot fall below 2/2^n, so few seeds can never earn a verdict.

`scipy.stats` and statsmodels take a second to import, longer than a table of 200 rows takes to be
computed, so they are imported where nothing less will do; the tests hold the rest to them.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

ALPHA = 0.05
POWER = 0.8
EXACT_UP_TO = 15
"""Seeds up to which all 2^n sign flips are enumerated; above it `RANDOM_FLIPS` are drawn."""
RANDOM_FLIPS = 39_999
MOST_SEEDS = 1_000_000


class Verdict(Enum):
    """What a table may say about one level against the baseline."""

    better = "better"
    worse = "worse"
    higher = "higher"
    lower = "lower"
    not_distinguishable = "not distinguishable"
    too_few_seeds = "n too small to tell"
    diverged = "diverged"
    undefined = "undefined"
    missing = "missing"


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95% interval, the standard deviation over the n numbers, and n."""

    mean: float
    low: float
    high: float
    sd: float
    n: int


@dataclass(frozen=True)
class NoiseFloor:
    """How far runs of one design are apart when only the seed differs.

    Attributes:
        sd: standard deviation over the n replicates, with its 95% chi-square interval.
        low: lower end of that interval.
        high: upper end of that interval.
        difference: what two single runs of the same design differ by at most, 95% of the time.
        n: replicates.
    """

    sd: float
    low: float
    high: float
    difference: float
    n: int


def t_estimate(values: ArrayLike, *, confidence: float = 1 - ALPHA) -> Estimate:
    """Mean and Student t interval of `values` (n,); the interval is NaN for fewer than two."""
    numbers = np.asarray(values, dtype=float)
    mean, sd = moments(numbers)
    if len(numbers) < 2:
        return Estimate(mean, math.nan, math.nan, sd, len(numbers))
    reach = _t_quantile((1 + confidence) / 2, len(numbers) - 1) * sd / math.sqrt(len(numbers))
    return Estimate(mean, mean - reach, mean + reach, sd, len(numbers))


def _t_quantile(share: float, degrees: int) -> float:
    return float(special.stdtrit(degrees, share))


def moments(numbers: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation (n - 1 in the denominator) of (n,); NaN where undefined."""
    mean = float(numbers.mean()) if len(numbers) else math.nan
    return mean, float(numbers.std(ddof=1)) if len(numbers) > 1 else math.nan


def noise_floor(values: ArrayLike) -> NoiseFloor:
    """The noise floor of replicates of one design (n,); NaN for fewer than two.

    `difference` is the two-sided 95% reach of the difference of two further single runs: a Student
    t quantile with n - 1 degrees of freedom times the standard deviation times sqrt(2).
    """
    numbers = np.asarray(values, dtype=float)
    n, sd = len(numbers), moments(numbers)[1]
    if n < 2:
        return NoiseFloor(math.nan, math.nan, math.nan, math.nan, n)
    low, high = (
        sd * math.sqrt((n - 1) / special.chdtri(n - 1, above))
        for above in (ALPHA / 2, 1 - ALPHA / 2)
    )
    reach = _t_quantile(1 - ALPHA / 2, n - 1) * sd * math.sqrt(2)
    return NoiseFloor(sd, low, high, reach, n)


def sign_flip_p(differences: ArrayLike) -> np.ndarray:
    """Two-sided p of the sign-flip permutation test on the mean of paired differences.

    Args:
        differences: (..., n) paired differences, one per seed along the last axis.

    Returns:
        (...) p-values; exact up to `EXACT_UP_TO` seeds, else from `RANDOM_FLIPS` seeded draws.
        One seed gives 1.
    """
    numbers = np.asarray(differences, dtype=float)
    assert np.isfinite(numbers).all(), "no flip is as extreme as what is no number: p would be 0"
    n = numbers.shape[-1]
    if n < 2:
        return np.ones(numbers.shape[:-1])
    if n > EXACT_UP_TO:
        return _drawn_sign_flip_p(numbers)
    # The last sign stays: flipping all of them leaves the size of the sum as it is.
    signs = 1.0 - 2 * ((np.arange(2 ** (n - 1))[:, None] >> np.arange(n)) & 1)
    sums, observed = np.abs(numbers @ signs.T), np.abs(numbers.sum(axis=-1, keepdims=True))
    # Sums that are equal but for the order of summation are ties.
    slack = 1e-12 * np.abs(numbers).sum(axis=-1, keepdims=True)
    return np.asarray((sums >= observed - slack).mean(axis=-1))


def _drawn_sign_flip_p(numbers: np.ndarray) -> np.ndarray:
    from scipy import stats

    return np.asarray(
        stats.permutation_test(
            (numbers,),
            np.mean,
            permutation_type="samples",
            n_resamples=RANDOM_FLIPS,
            batch=256,
            vectorized=True,
            axis=-1,
            rng=np.random.default_rng(0),
        ).pvalue
    )


def sign_flip_p_each(differences: Sequence[np.ndarray]) -> np.ndarray:
    """`sign_flip_p` of m rows of unlike lengths, (m,); NaN for a row without seeds.

    Rows with equally many seeds are tested in one go, which a table of 200 rows needs.
    """
    p_values = np.full(len(differences), np.nan)
    sizes = np.array([len(row) for row in differences], dtype=int)
    for n in set(sizes.tolist()) - {0}:
        same = np.flatnonzero(sizes == n)
        p_values[same] = sign_flip_p(np.stack([differences[int(index)] for index in same]))
    return p_values


def smallest_p(n: int) -> float:
    """The smallest two-sided p that `sign_flip_p` can return for n seeds: 2/2^n when exact."""
    if n < 2:
        return 1.0
    return 2 / 2**n if n <= EXACT_UP_TO else 2 / (RANDOM_FLIPS + 1)


def holm(p_values: ArrayLike) -> np.ndarray:
    """Holm-adjusted p-values (m,); a NaN is a planned test without data and counts as p = 1.

    Holm, "A Simple Sequentially Rejective Multiple Test Procedure", 1979. Tests still to be run
    belong to the family already: a half-finished study is not judged more leniently.
    """
    numbers = np.asarray(p_values, dtype=float)
    known = np.nan_to_num(numbers, nan=1.0)
    order = np.argsort(known, kind="stable")
    adjusted = np.empty_like(known)
    rising = np.maximum.accumulate(known[order] * np.arange(len(known), 0, -1))
    adjusted[order] = np.minimum(rising, 1.0)
    return np.where(np.isnan(numbers), np.nan, adjusted)


def critical_p(p_values: ArrayLike, *, alpha: float = ALPHA) -> np.ndarray:
    """The largest p (m,) with which each test would pass Holm, the others being what they are.

    A test that follows k rejected ones faces alpha / (m - k). Where `smallest_p` of its seeds is
    above that, nothing the seeds could have shown would have been a difference.
    """
    numbers = np.nan_to_num(np.asarray(p_values, dtype=float), nan=1.0)
    steps = alpha / (len(numbers) - np.arange(len(numbers)))
    rejected = [
        int(np.cumprod(np.sort(np.delete(numbers, index)) <= steps[:-1]).sum())
        for index in range(len(numbers))
    ]
    return steps[rejected]


def judge(
    p_adjusted: float, difference: float, *, tellable: bool, higher_is_better: bool | None
) -> Verdict:
    """Verdict of one comparison at `ALPHA` from its Holm-adjusted p and mean difference.

    Where neither direction is better (None), it says which one it was.
    """
    if p_adjusted <= ALPHA:
        if higher_is_better is None:
            return Verdict.higher if difference > 0 else Verdict.lower
        return Verdict.better if (difference > 0) == higher_is_better else Verdict.worse
    return Verdict.not_distinguishable if tellable else Verdict.too_few_seeds


def detectable_effect(sd: float, n: int, *, alpha: float = ALPHA, power: float = POWER) -> float:
    """Smallest mean difference that n seeds would show with probability `power`.

    Args:
        sd: standard deviation of the paired differences over seeds, in the metric's unit.
        n: paired seeds.
        alpha: two-sided level of this one test (already divided by the number of tests).
        power: wanted probability of showing the effect.

    Returns:
        The effect in the metric's unit (power of the paired t test); infinity where the
        sign-flip test can't reach `alpha` with n seeds.
    """
    if smallest_p(n) > alpha or math.isnan(sd):
        return math.inf
    if sd == 0:
        return 0.0
    return sd * _detectable_size(n, alpha, power)


def seeds_needed(effect: float, sd: float, *, alpha: float = ALPHA, power: float = POWER) -> int:
    """Paired seeds needed to show a mean difference of `effect` with probability `power`.

    Arguments as in `detectable_effect`; raises ValueError for an effect of zero, and for one so
    small beside `sd` that a million seeds would not do.
    """
    if effect == 0:
        raise ValueError("effect is 0: no number of seeds shows it; give an effect other than 0")
    low = fewest_seeds(alpha)
    if sd == 0:
        return low
    size = abs(effect) / sd
    if _power(size, MOST_SEEDS, alpha) < power:
        raise ValueError(f"effect {effect} needs over {MOST_SEEDS} seeds at sd {sd}; ask for more")
    high = low
    while _power(size, high, alpha) < power:
        low, high = high + 1, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(size, middle, alpha) >= power else (middle + 1, high)
    return low


def fewest_seeds(alpha: float = ALPHA) -> int:
    """Fewest seeds with which an exact sign-flip test can reach the two-sided level `alpha`."""
    return max(2, math.ceil(math.log2(2 / alpha) - 1e-12))


@cache
def _detectable_size(n: int, alpha: float, power: float) -> float:
    """The effect in standard deviations; cached, since rows of a table share n and alpha."""
    from scipy.optimize import brentq

    return float(brentq(lambda size: _power(size, n, alpha) - power, 1e-9, 1e3))


def _power(size: float, n: int, alpha: float) -> float:
    from statsmodels.stats.power import TTestPower

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        power = float(TTestPower().power(size, n, alpha))
    # The non-central t underflows to NaN only where the effect is many times the noise.
    return 1.0 if math.isnan(power) else power

import numpy as np
import pytest
from scipy import stats

from analysis import statistics
from analysis.bootstrap import bca_estimate, bca_estimate_each


def test_bca_interval_covers_nearly_as_often_with_many_seeds():
    draws = np.random.default_rng(0).normal(0.7, 0.4, size=(400, 20))
    estimates = bca_estimate_each(list(draws), resamples=999)
    covered = np.mean([estimate.low <= 0.7 <= estimate.high for estimate in estimates])
    assert 0.90 <= covered <= 0.97


def test_bca_interval_is_the_same_every_time_and_near_the_t_interval():
    numbers = np.random.default_rng(2).normal(size=30)
    first, again = bca_estimate(numbers), bca_estimate(numbers)
    assert first == again
    student = statistics.t_estimate(numbers)
    assert first.low == pytest.approx(student.low, abs=0.05)
    assert first.high == pytest.approx(student.high, abs=0.05)


def test_rows_of_unlike_lengths_have_the_interval_of_each_alone():
    generator = np.random.default_rng(3)
    rows = [generator.normal(size=n) for n in (5, 8, 0, 5, 1, 20)] + [np.full(3, 2.0)]
    for together, alone in zip(bca_estimate_each(rows), map(bca_estimate, rows), strict=True):
        # The order of summation differs, which breaks ties of resampled means another way.
        assert (together.low, together.high) == pytest.approx(
            (alone.low, alone.high), abs=0.01, nan_ok=True
        )
        assert (together.mean, together.sd, together.n) == pytest.approx(
            (alone.mean, alone.sd, alone.n), nan_ok=True
        )


def test_the_interval_leans_where_the_numbers_do():
    """With one large number the upper end reaches further, which a t interval cannot show."""
    estimate = bca_estimate(np.array([1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 3.0]))
    assert estimate.high - estimate.mean > 2 * (estimate.mean - estimate.low)


@pytest.mark.parametrize("n", [2, 5, 20])
def test_the_ends_are_those_of_scipy(n):
    rows = np.random.default_rng(n).normal(0.3, 1, size=(4, n))
    rows[0] = np.round(rows[0], 1)  # whose resampled means are often equal
    expected = stats.bootstrap(
        (rows,), np.mean, axis=-1, batch=1024, vectorized=True, rng=np.random.default_rng(0)
    ).confidence_interval
    found = bca_estimate_each(list(rows))
    assert [one.low for one in found] == pytest.approx(expected.low, abs=1e-9)
    assert [one.high for one in found] == pytest.approx(expected.high, abs=1e-9)

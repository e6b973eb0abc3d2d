"""The time of a row as numbers."""

from datetime import date

import numpy as np
import pandas as pd
import pytest

from data.calendar_features import continuous_features, country_calendar, scalar_feature


def test_features_by_hand() -> None:
    stamps = pd.DatetimeIndex(["2018-01-01 00:00", "2018-01-01 06:00", "2018-01-04 12:00"])
    features = continuous_features(stamps, country="")
    assert list(features) == [
        "hour_sin",
        "hour_cos",
        "weekday_sin",
        "weekday_cos",
        "year_sin",
        "year_cos",
    ]
    assert np.allclose(features["hour_sin"], [0, 1, 0])
    assert np.allclose(features["hour_cos"], [1, 0, -1])
    assert np.allclose(features["weekday_cos"], [1, np.cos(2 * np.pi * 0.25 / 7), -1])
    assert np.allclose(features["year_sin"][0], 0)


def test_phases_move_on_without_a_jump() -> None:
    stamps = pd.date_range("2018-01-01", periods=2 * 8760 * 4, freq="15min")
    for name, values in continuous_features(stamps, country="").items():
        assert np.abs(np.diff(values)).max() < 0.1, name


def test_an_hour_is_the_one_on_the_clock() -> None:
    stamps = pd.DatetimeIndex(["2021-07-01 22:00"], tz="UTC").tz_convert("Europe/Berlin")
    features = continuous_features(stamps, country="")
    assert features["hour_cos"] == pytest.approx(1)


def test_holidays_are_those_of_the_local_day() -> None:
    stamps = pd.date_range("2021-12-24 22:00", periods=4, freq="h", tz="UTC")
    berlin = continuous_features(stamps.tz_convert("Europe/Berlin"), country="DE")
    assert berlin["holiday"].tolist() == [0, 1, 1, 1]
    assert continuous_features(stamps, country="US")["holiday"].tolist() == [1, 1, 1, 1]
    assert continuous_features(stamps, country="DE")["holiday"].tolist() == [0, 0, 1, 1]


def test_time_as_a_number_ends_the_training_at_one() -> None:
    stamps = pd.date_range("2018-01-01", periods=6, freq="h")
    assert scalar_feature(stamps, n_train=5)["time"].tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25]


def test_countries() -> None:
    assert date(2021, 10, 3) in country_calendar("DE", years=range(2021, 2022))
    with pytest.raises(ValueError, match=r"'GER' is not in the holidays package; close: .*G"):
        country_calendar("GER", years=range(2021, 2022))

"""Generated load: its parts by themselves, and that it stays the same."""

import hashlib
from dataclasses import replace

import holidays
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.load import (
    GENERATOR_VERSION,
    LEVEL,
    UNIT,
    WEEK,
    WEEKLY_PERSISTENCE,
    Strengths,
    load_table,
    national_holidays,
)

NOTHING = Strengths(daily=0, weekly=0, yearly=0, holiday=0, temperature=0, noise=0)
EVERYTHING = Strengths(daily=1, weekly=0.5, yearly=0.5, holiday=1, temperature=0.5, noise=0.2)
YEARS = 4 * 8766


def part(name: str, n_hours: int = YEARS, seed: int = 0) -> np.ndarray:
    """The load with one part only, in units of its strength."""
    _, table = load_table(n_hours, seed=seed, strengths=replace(NOTHING, **{name: 1.0}))
    return (table["load"] - LEVEL) / UNIT


def test_the_series_is_the_one_this_version_stands_for() -> None:
    """When this fails on purpose, raise `GENERATOR_VERSION` with it."""
    stamps, table = load_table(2000, seed=0, strengths=EVERYTHING)
    rounded = np.round(np.stack([table["load"], table["temperature"]]), 6)
    assert GENERATOR_VERSION == 1
    assert str(stamps[0]) == "2018-01-01 00:00:00"
    assert hashlib.sha256(rounded.tobytes()).hexdigest()[:16] == "7e782b121113a3bb"


def test_nothing_is_flat_and_has_no_temperature() -> None:
    _, table = load_table(100, seed=0, strengths=NOTHING)
    assert list(table) == ["load"]
    assert set(table["load"]) == {LEVEL}


@pytest.mark.parametrize("name", ["daily", "weekly", "yearly", "noise"])
def test_a_part_of_strength_one_has_standard_deviation_one(name: str) -> None:
    assert part(name).std() == pytest.approx(1, abs=0.1)
    assert part(name).mean() == pytest.approx(0, abs=0.1)


def correlation(values: np.ndarray, lag: int) -> float:
    return float(np.corrcoef(values[:-lag], values[lag:])[0, 1])


@pytest.mark.parametrize(("name", "period"), [("daily", 24), ("yearly", 8766)])
def test_a_fixed_cycle_repeats_exactly(name: str, period: int) -> None:
    values = part(name)
    assert np.allclose(values[period:], values[:-period])
    assert correlation(values, period // 2) < 0.9


def test_the_weekly_part_can_be_told_from_last_week_and_not_from_yesterday() -> None:
    values = part("weekly")
    assert correlation(values, WEEK) > 0.95
    assert correlation(values, 24) < 0.5
    weekend = (np.arange(YEARS) // 24) % 7 >= 5
    assert values[weekend].mean() < values[~weekend].mean() - 1


def test_the_drifting_pattern_forgets_at_its_rate() -> None:
    values = part("weekly")
    by_hour = values[: YEARS // WEEK * WEEK].reshape(-1, WEEK)
    drifting = by_hour - by_hour.mean(0)
    assert correlation(drifting.ravel(), WEEK) == pytest.approx(WEEKLY_PERSISTENCE, abs=0.03)
    assert correlation(drifting.ravel(), 10 * WEEK) < 0.8


def test_load_falls_on_holidays_only() -> None:
    stamps, table = load_table(8760, seed=0, strengths=replace(NOTHING, holiday=2))
    days = {stamp.date() for stamp in stamps[table["load"] < LEVEL]}
    assert days == national_holidays(range(2018, 2019))
    assert set(table["load"]) == {LEVEL, LEVEL - 2 * UNIT}


def test_the_holidays_are_the_ones_a_model_can_be_told_of() -> None:
    years = range(2018, 2041)
    assert national_holidays(years) == set(holidays.country_holidays("DE", years=years))


def test_load_grows_as_temperature_leaves_comfort() -> None:
    _, table = load_table(YEARS, seed=0, strengths=replace(NOTHING, temperature=1))
    distance = abs(table["temperature"] - 16)
    assert np.corrcoef(distance, table["load"])[0, 1] == pytest.approx(1)
    assert -25 < table["temperature"].min() < 0
    assert 25 < table["temperature"].max() < 45


def test_noise_tells_nothing_of_the_next_hour() -> None:
    assert abs(correlation(part("noise"), 1)) < 0.02


strength = st.floats(0, 3)


@settings(max_examples=20)
@given(
    values=st.tuples(*[strength] * 6),
    short=st.integers(1, 400),
    more=st.integers(1, 400),
    seed=st.integers(0, 3),
)
def test_parts_add_up_and_a_longer_series_begins_with_the_shorter(
    values: tuple[float, ...], short: int, more: int, seed: int
) -> None:
    names = ("daily", "weekly", "yearly", "holiday", "temperature", "noise")
    strengths = Strengths(**dict(zip(names, values, strict=True)))
    stamps, table = load_table(short, seed=seed, strengths=strengths)
    long_stamps, longer = load_table(short + more, seed=seed, strengths=strengths)
    assert stamps.equals(long_stamps[:short])
    assert list(table) == list(longer)
    for name, column in table.items():
        assert np.allclose(column, longer[name][:short])
    parts = sum(value * part(name, short, seed) for name, value in zip(names, values, strict=True))
    assert np.allclose(table["load"], LEVEL + UNIT * parts)


def test_seeds_differ() -> None:
    assert not np.allclose(part("noise", 50, seed=0), part("noise", 50, seed=1))
    assert isinstance(load_table(5, seed=0, strengths=NOTHING)[0], pd.DatetimeIndex)

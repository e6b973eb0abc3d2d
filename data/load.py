"""Hourly electricity load that never was: every part of it has a strength of its own.

Each part draws from a stream of its own, so that turning one up or down leaves the others as they
are, and a longer series begins with the shorter one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

GENERATOR_VERSION = 1  # part of the data's fingerprint: raise it when any number changes
START = "2018-01-01"  # a Monday
LEVEL, UNIT = 100.0, 10.0  # load at strength 0, and what one unit of strength adds
DAY, WEEK, YEAR = 24, 168, 8766  # hours
WEEKLY_PERSISTENCE = 0.95  # correlation of the drifting weekly pattern with the week before
WEATHER_PERSISTENCE = 0.99  # correlation of the weather with the hour before
COMFORT = 16.0  # degrees Celsius at which nobody heats or cools
FROM_EASTER = (-2, 1, 39, 50)  # days: Good Friday, Easter Monday, Ascension, Whit Monday
FIXED = ((1, 1), (5, 1), (10, 3), (12, 25), (12, 26))  # month, day


@dataclass(frozen=True, kw_only=True)
class Strengths:
    """How strong each part of the load is, in units of `UNIT`; all 0 or more."""

    daily: float
    weekly: float
    yearly: float
    holiday: float
    temperature: float
    noise: float

    def digest(self) -> str:
        """The numbers as text."""
        return json.dumps({name: float(value) for name, value in asdict(self).items()})


def load_table(
    n_hours: int, *, seed: int, strengths: Strengths
) -> tuple[pd.DatetimeIndex, dict[str, np.ndarray]]:
    """Hourly load, and the temperature in degrees Celsius where load depends on it.

    - daily: a fixed shape with a morning and an evening peak, standard deviation 1.
    - weekly: one half is the weekend's lower load; the other half, a pattern that drifts from
      week to week (a seasonal autoregression), can be told from the last week only.
    - yearly: a cosine, highest in January.
    - holiday: a drop throughout German national holidays.
    - temperature: distance from `COMFORT`; the temperature has cycles and weather.
    - noise: independent from hour to hour.

    Args:
        n_hours: rows.
        seed: the same numbers give the same series.
        strengths: of the parts.

    Returns:
        Time stamps without a zone, and arrays `(n_hours,)` by name: `load`, and `temperature`
        when its strength is above 0.
    """
    import pandas as pd

    stamps = pd.date_range(START, periods=n_hours, freq="h")
    temperature = _temperature(n_hours, seed=seed)
    parts = {
        "daily": _daily(n_hours),
        "weekly": _weekly(n_hours, seed=seed),
        "yearly": _wave(n_hours, period=YEAR),
        "holiday": -_holidays(stamps),
        "temperature": abs(temperature - COMFORT) / COMFORT,
        "noise": _stream(seed, "noise").standard_normal(n_hours),
    }
    load = LEVEL + UNIT * sum(getattr(strengths, name) * part for name, part in parts.items())
    return stamps, {"load": load} | ({"temperature": temperature} if strengths.temperature else {})


def national_holidays(years: range) -> set[date]:
    """German national holidays since 2018.

    Written down here, not asked of a library, for the series must stay the same for good.
    """
    from dateutil.easter import easter

    moving = {easter(year) + timedelta(days=days) for year in years for days in FROM_EASTER}
    return moving | {date(year, month, day) for year in years for month, day in FIXED}


def _stream(seed: int, part: str) -> np.random.RandomState:
    """Random numbers of one part, from the generator that numpy promises never to change."""
    import numpy as np

    return np.random.RandomState([seed, *part.encode()])


def _wave(n_hours: int, *, period: float, peak: float = 0.0) -> np.ndarray:
    """A cosine of standard deviation 1 with its highest value at hour `peak`."""
    import numpy as np

    return np.sqrt(2) * np.cos(2 * np.pi * (np.arange(n_hours) - peak) / period)


def _daily(n_hours: int) -> np.ndarray:
    slow, fast = _wave(n_hours, period=DAY, peak=15), _wave(n_hours, period=DAY / 2, peak=7.5)
    return 0.8 * slow + 0.6 * fast


def _weekly(n_hours: int, *, seed: int) -> np.ndarray:
    """Weekend and drifting pattern, together of standard deviation 1."""
    import numpy as np

    weekend = (np.arange(n_hours) // DAY) % 7 >= 5
    fixed = np.where(weekend, -2.5, 1.0) / np.sqrt(2.5)
    n_weeks = -(-n_hours // WEEK)
    draws = _stream(seed, "weekly").standard_normal((n_weeks, WEEK))
    drifting = _autoregression(draws, persistence=WEEKLY_PERSISTENCE).ravel()[:n_hours]
    return (fixed + drifting) / np.sqrt(2)


def _temperature(n_hours: int, *, seed: int) -> np.ndarray:
    """Degrees Celsius: warmest in mid-July and in the afternoon, with weather of some days."""
    draws = _stream(seed, "temperature").standard_normal(n_hours)
    weather = _autoregression(draws, persistence=WEATHER_PERSISTENCE)
    seasons, days = (
        _wave(n_hours, period=YEAR, peak=YEAR * 0.54),
        _wave(n_hours, period=DAY, peak=15),
    )
    return 10.0 + 6.0 * seasons + 2.5 * days + 3.0 * weather


def _autoregression(draws: np.ndarray, *, persistence: float) -> np.ndarray:
    """`x[t] = persistence * x[t - 1] + innovation[t]` along the first axis, standard deviation 1.

    Args:
        draws: standard normal; the first is taken as it is, for later ones are like it.
        persistence: correlation with the step before.
    """
    import numpy as np

    innovations = draws * np.sqrt(1 - persistence**2)
    innovations[:1] = draws[:1]
    return np.array(list(accumulate(innovations, lambda last, new: persistence * last + new)))


def _holidays(stamps: pd.DatetimeIndex) -> np.ndarray:
    """1 on holidays, else 0: `(rows,)`."""
    import numpy as np

    dates = national_holidays(range(stamps[0].year, stamps[-1].year + 1))
    return np.array([float(day in dates) for day in stamps.date])

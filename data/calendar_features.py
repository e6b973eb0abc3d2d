"""The time of each row as numbers."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import holidays
    import numpy as np
    import pandas as pd

DAYS_OF_YEAR = 365.2425


def continuous_features(stamps: pd.DatetimeIndex, *, country: str) -> dict[str, np.ndarray]:
    """Hour, weekday and day of the year as sine and cosine, and holidays as 1.

    The phase moves on within the hour, the day and the year: no jump at midnight.

    Args:
        stamps: local time, for that is what people live by.
        country: code of the `holidays` package; empty for no such feature.

    Returns:
        Arrays `(rows,)` by name.

    Raises:
        ValueError: As for `country_calendar`.
    """
    import numpy as np

    day = (stamps.hour + stamps.minute / 60 + stamps.second / 3600).to_numpy() / 24
    phases = {
        "hour": day,
        "weekday": (stamps.day_of_week.to_numpy() + day) / 7,
        "year": (stamps.day_of_year.to_numpy() - 1 + day) / DAYS_OF_YEAR,
    }
    features = {}
    for name, phase in phases.items():
        features[f"{name}_sin"] = np.sin(2 * np.pi * phase)
        features[f"{name}_cos"] = np.cos(2 * np.pi * phase)
    if country:
        years = range(stamps[0].year, stamps[-1].year + 1)
        dates = set(country_calendar(country, years=years))
        features["holiday"] = np.array([float(day in dates) for day in stamps.date])
    return features


def scalar_feature(stamps: pd.DatetimeIndex, *, n_train: int) -> dict[str, np.ndarray]:
    """Time as one number, 0 at the first and 1 at the last of `n_train` rows: `(rows,)`."""
    elapsed = (stamps - stamps[0]).total_seconds().to_numpy()
    return {"time": elapsed / elapsed[n_train - 1]}


def country_calendar(country: str, *, years: range) -> holidays.HolidayBase:
    """The national holidays of these years, by date.

    Raises:
        ValueError: No such country; the closest codes.
    """
    import holidays

    try:
        return holidays.country_holidays(country, years=years)
    except NotImplementedError as error:
        known = sorted(holidays.list_supported_countries())
        close = difflib.get_close_matches(country.upper(), known, n=3, cutoff=0.3) or known[:3]
        raise ValueError(
            f"data.holidays_country={country!r} is not in the holidays package; close:"
            f" {', '.join(close)}"
        ) from error

"""Time stamps: text to times, summer time, and whether they come at regular steps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

NAMED = 5  # places named in a message
DAY = 24 * 3600 * 10**6  # microseconds
CALENDAR = ("B", "MS", "ME", "QS", "QE", "YS", "YE")  # names of uneven steps in pandas
OFFSET = re.compile(r"\d[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$", re.IGNORECASE)


@dataclass(frozen=True)
class Grid:
    """Rows put at regular times.

    Attributes:
        stamps: local time of each row.
        rows: the row of the file that stands at each of them, `(rows,)`.
        step: distance of two stamps, in words.
        n_repeated: rows left out because their stamp had come before.
        n_filled: rows added for missing stamps.
    """

    stamps: pd.DatetimeIndex
    rows: np.ndarray
    step: str
    n_repeated: int
    n_filled: int


def parse_stamps(texts: list[str], lines: list[int], *, timezone: str) -> pd.DatetimeIndex:
    """Read ISO 8601 time stamps.

    Args:
        texts: one stamp for each row.
        lines: of the file, for messages.
        timezone: the zone whose local time the stamps tell, or into which stamps with an offset
            are moved; empty for stamps without either.

    Returns:
        Times in that zone. An hour that the end of summer time repeats is taken to be in summer
        time at first and in winter time when it comes again.

    Raises:
        ValueError: Not a date, a local time that the clock skipped, offsets without a zone, or
            offsets in some rows only; the line.
    """
    import numpy as np
    import pandas as pd

    offsets = np.array([OFFSET.search(text.strip()) is not None for text in texts])
    if offsets.any() and not timezone:
        place = int(offsets.argmax())
        raise ValueError(
            f"line {lines[place]}: {texts[place]!r} has an offset from UTC; name the zone whose"
            " local time counts in data.timezone, such as UTC"
        )
    if offsets.any() and not offsets.all():
        place = int(offsets.argmin())
        raise ValueError(f"line {lines[place]}: {texts[place]!r} has no offset, other rows have")
    stamps = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=bool(offsets.any()))
    for line, text, bad in zip(lines, texts, stamps.isna(), strict=True):
        # Some words, such as "now", are times to pandas.
        if bad or not text.strip()[0].isdigit():
            raise ValueError(
                f"line {line}: {text!r} is no date; write YYYY-MM-DD HH:MM:SS (ISO 8601)"
            )
    if offsets.any():
        return stamps.tz_convert(timezone)
    return _localise(stamps, texts, lines, timezone=timezone) if timezone else stamps


def _localise(
    stamps: pd.DatetimeIndex, texts: list[str], lines: list[int], *, timezone: str
) -> pd.DatetimeIndex:
    summer = ~stamps.duplicated(keep="first")
    local = stamps.tz_localize(timezone, ambiguous=summer, nonexistent="NaT")
    for line, text, bad in zip(lines, texts, local.isna(), strict=True):
        if bad:
            raise ValueError(
                f"line {line}: {text!r} does not exist in {timezone}, where the clock skipped it"
            )
    return local


def on_a_grid(stamps: pd.DatetimeIndex, lines: list[int], *, timezone: str, fill: bool) -> Grid:
    """Check that stamps come in order and at regular steps, or fill them up.

    The step is the commonest one, or a step of the calendar: business days, months, quarters or
    years.

    Args:
        stamps: of each row, in local time.
        lines: of the file, for messages.
        timezone: as for `parse_stamps`.
        fill: repeat the row before a missing stamp, leave out later rows of a repeated one.

    Raises:
        ValueError: Stamps out of order or off the steps, or more missing than present; without
            `fill`, any missing or repeated; the lines.
    """
    import numpy as np
    import pandas as pd

    absolute = stamps.tz_convert("UTC").tz_localize(None) if timezone else stamps
    steps = np.diff(absolute.to_numpy().astype("datetime64[us]").astype(np.int64))
    places = Places(stamps, lines)
    places.refuse(steps < 0, "goes back in time", rule="sort the rows by time")
    forward, counts = np.unique(steps[steps > 0], return_counts=True)
    if not len(forward):
        raise ValueError("there are no two different time stamps")
    if len(forward) > 1 and steps.min() >= DAY:
        for frequency in CALENDAR:
            if pd.date_range(absolute[0], periods=len(absolute), freq=frequency).equals(absolute):
                return Grid(stamps, np.arange(len(stamps)), frequency, 0, 0)
    step = forward[counts.argmax()]
    words = str(timedelta(microseconds=int(step)))
    places.refuse(steps % step > 0, f"is off the step of {words}", rule="correct the time stamps")
    if not fill:
        rule = "data.fill=forward fills gaps and leaves out repetitions"
        if not timezone:
            rule += ", data.timezone reads local time with its clock changes"
        places.refuse(steps == 0, "repeats the stamp before", rule=rule)
        places.refuse(steps > step, f"is more than {words} after the row before", rule=rule)
    return _filled(stamps, steps // step, step=int(step))


def _filled(stamps: pd.DatetimeIndex, steps: np.ndarray, *, step: int) -> Grid:
    """Put rows on a grid without gaps or repetitions.

    Args:
        stamps: of each row.
        steps: grid steps from each row to the next.
        step: of the grid, in microseconds.
    """
    import numpy as np
    import pandas as pd

    n_grid = int(steps.sum()) + 1
    kept = np.concatenate([[True], steps > 0])
    n_filled = n_grid - int(kept.sum())
    if n_filled > len(stamps):
        raise ValueError(
            f"{n_filled} stamps are missing between {stamps[0]} and {stamps[-1]}, more than the"
            f" {len(stamps)} rows there are; correct the time stamps"
        )
    rows = np.repeat(np.flatnonzero(kept), np.append(steps[steps > 0], 1))
    # Time that passes, not time on the clock: an hour later is an hour later in every zone.
    grid = stamps[0] + pd.to_timedelta(np.arange(n_grid) * step, unit="us")
    words = str(timedelta(microseconds=step))
    return Grid(pd.DatetimeIndex(grid), rows, words, len(stamps) - int(kept.sum()), n_filled)


@dataclass(frozen=True)
class Places:
    """The stamps of a file and the lines they stand in."""

    stamps: pd.DatetimeIndex
    lines: list[int]

    def refuse(self, wrong: np.ndarray, problem: str, *, rule: str) -> None:
        """Name the first rows that are wrong, `wrong[i]` being about row `i + 1`.

        Raises:
            ValueError: Any is.
        """
        found = wrong.nonzero()[0] + 1
        if len(found):
            named = ", ".join(f"{self.lines[i]} ({self.stamps[i]})" for i in found[:NAMED])
            more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
            raise ValueError(f"time {problem} in line {named}{more}; {rule}")

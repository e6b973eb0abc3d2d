"""Which series a forecasting run reads: the choice, its checks, its splits and its fingerprint.

Imports neither torch nor Lightning, so that a plan can check a hundred cells at once.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo

from data.lengths import evaluation_lengths
from data.load import GENERATOR_VERSION, Strengths, load_table
from data.remote import PUBLISHED, content_digest, is_url, published_file
from data.series_files import Series, read_series

LOAD_SEED = 0  # the data are the same in every run; a run's seed picks their order
ETT_MONTHS = {"train": 12, "validation": 4, "test": 4}
ETT_MONTH = 30 * 24  # rows
STRENGTHS = ("daily", "weekly", "yearly", "holiday", "temperature", "noise")


class SeriesSource(Enum):
    """Where a series comes from.

    - `load`: hourly electricity load written by `data.load`; nothing to download.
    - `etth1`, `etth2`: electricity transformers, hourly (Zhou et al. 2021), with the published
      split into 12, 4 and 4 months of 30 days.
    - `csv`: anybody's table with a time column.
    """

    load = "load"
    etth1 = "etth1"
    etth2 = "etth2"
    csv = "csv"


class TimeFeatures(Enum):
    """What a model is told of the time of each row.

    - `continuous`: hour, weekday and day of the year as sine and cosine; with
      `holidays_country`, also 1 on holidays.
    - `scalar`: one number growing evenly, 0 at the first and 1 at the last training row.
    - `none`: nothing.
    """

    continuous = "continuous"
    scalar = "scalar"
    none = "none"


class Fill(Enum):
    """What becomes of missing and repeated time stamps and of missing values.

    - `refuse`: the first ones are named, and nothing is read.
    - `forward`: what is missing repeats the row before, of repeated stamps the first row counts;
      the numbers stand in the report.
    """

    refuse = "refuse"
    forward = "forward"


@dataclass(frozen=True, kw_only=True)
class ForecastingData:
    """A series, its windows and its batches.

    Attributes:
        source: where the series comes from.
        path: a CSV file (plain or `.gz`) or its URL, for a file on the hub
            `hf://datasets/OWNER/NAME/FILE`; for `etth1` and `etth2` also the folder that holds
            it, empty for the published URL.
        time_column: the column of time stamps, files only.
        lookback: rows a forecast is made from.
        horizon: rows forecast.
        eval_lookbacks: look-backs that the test windows are also evaluated with, as multiples of
            `lookback` such as `1x 2x 4x 8x`, or as rows; empty for none.
        batch_size: windows in a batch over all ranks, in training and evaluation.
        time_features: what is told of the time of each row.
        holidays_country: country code of the `holidays` package; empty for none.
        fill: what becomes of gaps and repetitions, files only.
        timezone: zone of the time stamps, such as `Europe/Berlin`, files only; empty for stamps
            that know no summer time.
        train_share: of the rows, the first ones; `load` and `csv` only.
        validation_share: of the rows, the next ones; the others are for testing.
        n_hours: rows generated, `load` only, as are all further numbers.
        daily: strength of the cycle of 24 hours.
        weekly: strength of the cycle of 168 hours, half of which only the last week can tell.
        yearly: strength of the cycle of a year.
        holiday: how far the load falls on holidays.
        temperature: strength of heating and cooling; above 0 the temperature is a channel.
        noise: strength of what nobody can forecast.

    Raises:
        ValueError: A number out of range, no such time zone, or options that exclude each other.
    """

    source: SeriesSource = SeriesSource.load
    path: str = ""
    time_column: str = "date"
    lookback: int = 168
    horizon: int = 24
    eval_lookbacks: str = ""
    batch_size: int = 32
    time_features: TimeFeatures = TimeFeatures.continuous
    holidays_country: str = ""
    fill: Fill = Fill.refuse
    timezone: str = ""
    train_share: float = 0.7
    validation_share: float = 0.1
    n_hours: int = 17_520
    daily: float = 1.0
    weekly: float = 0.5
    yearly: float = 0.5
    holiday: float = 1.0
    temperature: float = 0.5
    noise: float = 0.2

    def __post_init__(self) -> None:
        for name in ("lookback", "horizon", "batch_size", "n_hours"):
            if getattr(self, name) < 1:
                raise ValueError(f"data.{name}={getattr(self, name)} is too small: at least 1")
        for name in STRENGTHS:
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"data.{name}={value} is no strength: 0 or more")
        shares = (self.train_share, self.validation_share)
        if not (min(shares) > 0 and sum(shares) < 1):
            raise ValueError(
                f"data.train_share={shares[0]} and data.validation_share={shares[1]}: each must be"
                " over 0, and together under 1 to leave rows for testing"
            )
        test_lookbacks(self)
        self._check_calendar()

    def _check_calendar(self) -> None:
        if self.holidays_country and self.time_features is not TimeFeatures.continuous:
            raise ValueError(
                f"data.holidays_country={self.holidays_country!r} is for"
                f" data.time_features=continuous, not {self.time_features.name}"
            )
        if self.timezone and self.source is SeriesSource.load:
            raise ValueError(
                f"data.timezone={self.timezone!r}: data.source=load knows no summer time; leave it"
                " empty"
            )
        if self.timezone:
            try:
                ZoneInfo(self.timezone)
            except (OSError, ValueError, LookupError) as error:
                raise ValueError(
                    f"data.timezone={self.timezone!r} is no time zone; write one such as"
                    " Europe/Berlin or UTC"
                ) from error


def test_lookbacks(data: ForecastingData) -> tuple[int, ...]:
    """Look-backs that the test windows are also evaluated with, in rows, in the order given.

    Raises:
        ValueError: As for `data.lengths.evaluation_lengths`.
    """
    text, name = data.eval_lookbacks, "data.eval_lookbacks"
    return evaluation_lengths(text, name=name, trained=data.lookback) if text else ()


def load_series(data: ForecastingData, *, cache_dir: Path | None = None) -> Series:
    """The whole series, every row in its place.

    Args:
        data: what to read.
        cache_dir: where a published file is kept once it is downloaded; None to keep none.

    Raises:
        ValueError: A file cannot be found, fetched or read as numbers at regular times; the
            message names file, line and column.
    """
    if data.source is SeriesSource.load:
        return _generated(_strengths(data), data.n_hours)
    location = _location(data)
    if not location:
        location = published_file(PUBLISHED[data.source.name], cache_dir=cache_dir)
    return read_series(
        location,
        content_digest(location),
        time_column=data.time_column,
        timezone=data.timezone,
        fill=data.fill is Fill.forward,
    )


def split_rows(data: ForecastingData, n_rows: int) -> dict[str, range]:
    """The rows each split reads, by name.

    Validation and test begin `lookback` rows early, so that their first forecast is of the first
    row that is theirs.

    Raises:
        ValueError: The series is too short for a window in every split, or for the longest of
            `eval_lookbacks` before the first test row.
    """
    if data.source in (SeriesSource.etth1, SeriesSource.etth2):
        sizes = {name: months * ETT_MONTH for name, months in ETT_MONTHS.items()}
        if n_rows < sum(sizes.values()):
            raise ValueError(
                f"{n_rows} rows are too few for data.source={data.source.name}: the published"
                f" split takes {sum(sizes.values())}"
            )
    else:
        ends = (
            round(n_rows * data.train_share),
            round(n_rows * (data.train_share + data.validation_share)),
        )
        sizes = {"train": ends[0], "validation": ends[1] - ends[0], "test": n_rows - ends[1]}
    needed = {"train": data.lookback + data.horizon, "validation": data.horizon}
    rows, end = {}, 0
    for name, size in sizes.items():
        if size < needed.get(name, data.horizon):
            raise ValueError(
                f"{n_rows} rows give {size} to {name}, too few for data.lookback={data.lookback}"
                f" and data.horizon={data.horizon}: at least {needed.get(name, data.horizon)}"
            )
        rows[name] = range(end - data.lookback if end else 0, end + size)
        end += size
    longest = max(test_lookbacks(data), default=0)
    before = rows["test"].start + data.lookback
    if longest > before:
        raise ValueError(
            f"data.eval_lookbacks={data.eval_lookbacks!r}: {longest} rows don't fit before the"
            f" first test row, which has {before} before it; name shorter ones"
        )
    return rows


def validate(data: ForecastingData) -> None:
    """Read everything once and refuse what cannot be trained on.

    A published file that is still to be downloaded is known; only the sizes are checked.

    Raises:
        ValueError: As for `load_series`, `split_rows` and `Series.scale`; no such country.
    """
    if data.holidays_country:
        from data.calendar_features import country_calendar

        country_calendar(data.holidays_country, years=range(2000, 2001))
    if data.source is not SeriesSource.load and not _location(data):
        split_rows(data, sum(ETT_MONTHS.values()) * ETT_MONTH)
        return
    series = load_series(data)
    series.scale(split_rows(data, len(series.values))["train"])


def fingerprint(data: ForecastingData) -> str:
    """16 hex digits of the content of the series, wherever its file lies.

    Raises:
        ValueError: The file cannot be found or fetched.
    """
    content: object
    if data.source is SeriesSource.load:
        content = ["load", GENERATOR_VERSION, LOAD_SEED, data.n_hours, _strengths(data).digest()]
    elif location := _location(data):
        content = content_digest(location)
    else:
        content = PUBLISHED[data.source.name].digest
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _strengths(data: ForecastingData) -> Strengths:
    return Strengths(**{name: getattr(data, name) for name in STRENGTHS})


@lru_cache(maxsize=4)
def _generated(strengths: Strengths, n_hours: int) -> Series:
    stamps, table = load_table(n_hours, seed=LOAD_SEED, strengths=strengths)
    return Series.from_columns(stamps, table, report={"step": str(timedelta(hours=1))})


def _location(data: ForecastingData) -> str:
    """The file or URL to read; empty for the published one."""
    published = PUBLISHED.get(data.source.name)
    if published is None and not data.path:
        raise ValueError("data.path is empty: data.source=csv reads a file; name it")
    if is_url(data.path) or not data.path:
        return data.path
    path = Path(data.path)
    if published is not None and path.is_dir():
        packed, path = path / f"{published.name}.gz", path / published.name
        path = packed if packed.is_file() and not path.is_file() else path
    if not path.is_file():
        raise ValueError(f"data.path={data.path!r}: {path} is no file")
    return str(path)

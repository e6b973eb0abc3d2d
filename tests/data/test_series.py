"""The choice of a series: its checks, its splits and its fingerprint."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from data.remote import PUBLISHED, Published, content_digest
from data.series import (
    Fill,
    ForecastingData,
    SeriesSource,
    TimeFeatures,
    fingerprint,
    load_series,
    split_rows,
    validate,
)
from tests.ett import ett_folder


def table(n_rows: int, *, value: str = "") -> str:
    stamps = pd.date_range("2020-01-01", periods=n_rows, freq="h")
    rows = (f"{stamp},{value or i % 7},{i % 5}" for i, stamp in enumerate(stamps))
    return "\n".join(["date,a,b", *rows, ""])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "series.csv"
    path.write_text(table(200))
    return path


def choice(path: Path, **options) -> ForecastingData:
    sizes = {"lookback": 24, "horizon": 6} | options
    return ForecastingData(source=SeriesSource.csv, path=str(path), **sizes)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"lookback": 0}, r"data\.lookback=0 is too small: at least 1"),
        ({"horizon": -1}, r"data\.horizon=-1"),
        ({"batch_size": 0}, r"data\.batch_size=0"),
        ({"n_hours": 0}, r"data\.n_hours=0"),
        ({"eval_lookbacks": "1x 2y"}, r"data\.eval_lookbacks='1x 2y': '2y' is neither"),
        ({"noise": -0.1}, r"data\.noise=-0\.1 is no strength: 0 or more"),
        ({"daily": float("nan")}, r"data\.daily=nan"),
        ({"weekly": float("inf")}, r"data\.weekly=inf"),
        ({"train_share": 0.0}, r"data\.train_share=0\.0 .*over 0"),
        ({"train_share": 0.9, "validation_share": 0.1}, "under 1 to leave rows for testing"),
        ({"train_share": float("nan")}, r"data\.train_share=nan"),
        ({"timezone": "Europe/Berlin"}, r"data\.source=load knows no summer time"),
        ({"source": SeriesSource.csv, "timezone": "Berlin"}, "'Berlin' is no time zone.*Europe/B"),
        ({"source": SeriesSource.csv, "timezone": "../etc"}, "is no time zone"),
        (
            {"holidays_country": "DE", "time_features": TimeFeatures.none},
            r"'DE' is for data\.time_features=continuous, not none",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_once(options: dict, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        ForecastingData(**options)
    assert "\n" not in str(refused.value)


def test_the_choice_needs_no_heavy_library() -> None:
    code = (
        "import sys\nfrom data.series import ForecastingData, fingerprint\n"
        "fingerprint(ForecastingData())\n"
        "heavy = {'torch', 'pytorch_lightning', 'pandas', 'holidays'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_published_split() -> None:
    data = ForecastingData(source=SeriesSource.etth1, lookback=168)
    assert split_rows(data, 17_420) == {
        "train": range(8640),
        "validation": range(8640 - 168, 11_520),
        "test": range(11_520 - 168, 14_400),
    }
    with pytest.raises(ValueError, match=r"14399 rows are too few.*takes 14400"):
        split_rows(data, 14_399)


@given(
    n_rows=st.integers(20, 2000),
    lookback=st.integers(1, 60),
    horizon=st.integers(1, 20),
    train=st.integers(1, 90),
    validation=st.integers(1, 90),
)
def test_every_row_after_the_first_lookback_is_in_one_split(
    n_rows: int, lookback: int, horizon: int, train: int, validation: int
) -> None:
    assume(train + validation < 100)
    shares = {"train_share": train / 100, "validation_share": validation / 100}
    data = ForecastingData(lookback=lookback, horizon=horizon, **shares)
    splits: dict[str, range] = {}
    with contextlib.suppress(ValueError):  # too short: see below
        splits = split_rows(data, n_rows)
    assume(splits)
    own = [rows[lookback if name != "train" else 0 :] for name, rows in splits.items()]
    assert [row for rows in own for row in rows] == list(range(n_rows))
    assert abs(len(own[0]) - n_rows * train / 100) <= 0.5
    assert all(len(rows) >= lookback + horizon for rows in splits.values())


def test_tenths_are_tenths() -> None:
    """.7 + .1 is a little under .8 in floating point."""
    assert split_rows(ForecastingData(lookback=1, horizon=1), 1000)["test"].stop == 1000
    assert split_rows(ForecastingData(lookback=1, horizon=1), 1000)["test"].start == 799


@pytest.mark.parametrize(
    ("n_rows", "problem"),
    [
        (40, "40 rows give 28 to train, too few .*: at least 30"),
        (50, "50 rows give 5 to validation, too few .*: at least 6"),
    ],
)
def test_a_short_series_is_refused_with_its_rows(file: Path, n_rows: int, problem: str) -> None:
    file.write_text(table(n_rows))
    with pytest.raises(ValueError, match=problem):
        validate(choice(file))


def test_a_lookback_that_begins_before_the_series_is_refused(file: Path) -> None:
    """Of 200 rows, 160 come before the first test row."""
    validate(choice(file, eval_lookbacks="160"))
    with pytest.raises(ValueError, match=r"eval_lookbacks='1x,161': 161 rows .* has 160 before"):
        validate(choice(file, eval_lookbacks="1x,161"))


def test_validate_reads_what_a_run_would_read(file: Path) -> None:
    validate(choice(file))
    validate(ForecastingData(n_hours=1000))
    with pytest.raises(ValueError, match="no column 'time'"):
        validate(choice(file, time_column="time"))
    with pytest.raises(ValueError, match="'XX' is not in the holidays package"):
        validate(choice(file, holidays_country="XX"))
    file.write_text(table(200, value="3"))
    with pytest.raises(ValueError, match="column 'a': one value in all 140 training rows"):
        validate(choice(file))
    flat = dict.fromkeys(("daily", "weekly", "yearly", "holiday", "temperature", "noise"), 0.0)
    with pytest.raises(ValueError, match="column 'load'"):
        validate(ForecastingData(**flat))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"data\.path is empty: data\.source=csv reads a file"):
        validate(ForecastingData(source=SeriesSource.csv))
    for source, path in ((SeriesSource.csv, tmp_path), (SeriesSource.etth2, tmp_path)):
        with pytest.raises(ValueError, match="is no file"):
            fingerprint(ForecastingData(source=source, path=str(path)))


def test_a_published_file_needs_no_fetching_to_be_checked() -> None:
    data = ForecastingData(source=SeriesSource.etth1)
    validate(data)
    assert len(fingerprint(data)) == 16
    with pytest.raises(ValueError, match=r"2880 to validation.*data\.horizon=2881"):
        validate(ForecastingData(source=SeriesSource.etth1, horizon=2881))


def test_a_published_file_is_fetched_when_it_is_read(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = fingerprint(choice(file))
    known = Published("ETTh1.csv", file.as_uri(), content_digest(str(file)))
    monkeypatch.setitem(PUBLISHED, "etth1", known)
    data = ForecastingData(source=SeriesSource.etth1)
    assert fingerprint(data) == digest
    assert load_series(data, cache_dir=tmp_path / "cache").channels == ("a", "b")
    assert (tmp_path / "cache" / "ETTh1.csv").is_file()


def test_the_fingerprint_is_of_the_content_alone(file: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere.csv"
    shutil.copy(file, moved)
    assert fingerprint(choice(file)) == fingerprint(choice(moved))
    moved.write_text(table(201))
    os.utime(moved, (1, 1))
    assert fingerprint(choice(file)) != fingerprint(choice(moved))


def test_the_fingerprint_of_load_is_of_its_numbers() -> None:
    base = fingerprint(ForecastingData())
    assert fingerprint(ForecastingData(lookback=24, batch_size=7)) == base
    assert fingerprint(ForecastingData(daily=1)) == base
    others = [{"weekly": 0.7}, {"noise": 0.3}, {"n_hours": 9000}, {"temperature": 0.0}]
    assert len({base, *(fingerprint(ForecastingData(**other)) for other in others)}) == 5


def test_a_folder_file_or_address_of_ett_is_the_published_one() -> None:
    folder = ett_folder()
    paths = [str(folder), str(folder / "ETTh1.csv"), (folder / "ETTh1.csv").as_uri(), ""]
    found = {fingerprint(ForecastingData(source=SeriesSource.etth1, path=p)) for p in paths}
    assert len(found) == 1
    assert found != {fingerprint(ForecastingData(source=SeriesSource.etth2, path=paths[0]))}


def test_filling_is_a_choice(file: Path) -> None:
    rows = table(200).splitlines(keepends=True)
    del rows[50:53]
    file.write_text("".join(rows))
    with pytest.raises(ValueError, match=r"in line 51 .*data\.fill=forward"):
        validate(choice(file))
    series = load_series(choice(file, fill=Fill.forward))
    assert len(series.values) == 200
    assert series.report["filled_stamps"] == 3

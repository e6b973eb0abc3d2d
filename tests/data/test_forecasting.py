"""The data module: windows, scale, time features and the published protocol."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from data.batches import ForecastingBatch
from data.forecasting import (
    ForecastingData,
    ForecastingDataModule,
    SeriesSource,
    TimeFeatures,
    Windows,
)
from tests.data.tables import N_ROWS, order, random_values, series_data, write_series
from tests.ett import ett_folder


@pytest.fixture
def values() -> np.ndarray:
    return random_values()


@pytest.fixture
def data(tmp_path: Path, values: np.ndarray) -> ForecastingData:
    return series_data(write_series(tmp_path / "series.csv", values))


@pytest.fixture
def module(data: ForecastingData) -> ForecastingDataModule:
    return ForecastingDataModule(data, seed=1)


@pytest.fixture(scope="module")
def shared_series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_series(tmp_path_factory.mktemp("series") / "series.csv", random_values())


@given(
    n_rows=st.integers(3, 60),
    lookback=st.integers(1, 20),
    horizon=st.integers(1, 20),
    n_features=st.integers(0, 3),
)
def test_every_window_is_the_rows_it_should_be(
    n_rows: int, lookback: int, horizon: int, n_features: int
) -> None:
    n_rows = max(n_rows, lookback + horizon)
    rows = torch.arange(2 * n_rows, dtype=torch.float32).view(n_rows, 2)
    features = torch.arange(n_features * n_rows, dtype=torch.float32).view(n_rows, n_features)
    windows = Windows(rows, features, lookback=lookback, horizon=horizon)
    assert len(windows) == n_rows - lookback - horizon + 1
    batch = windows[range(len(windows))]
    for start in range(len(windows)):
        middle, end = start + lookback, start + lookback + horizon
        assert torch.equal(batch.past[start], rows[start:middle])
        assert torch.equal(batch.future[start], rows[middle:end])
        assert torch.equal(batch.past_time[start], features[start:middle])
        assert torch.equal(batch.future_time[start], features[middle:end])
    assert windows.past.untyped_storage().data_ptr() == rows.untyped_storage().data_ptr()


def test_splits_meet_without_gap_or_overlap_of_what_is_forecast(
    module: ForecastingDataModule, values: np.ndarray
) -> None:
    mean, sd = module.scale
    first = 24
    for split, n_own in (("train", 280 - 24), ("validation", 40), ("test", 80)):
        future = module.windows(split).future * sd + mean
        assert len(future) == n_own - 6 + 1
        assert np.allclose(future[0], values[first : first + 6], rtol=1e-5)
        first += n_own
        assert np.allclose(future[-1], values[first - 6 : first], rtol=1e-5)
    assert first == N_ROWS


def test_the_scale_is_of_the_training_rows(
    module: ForecastingDataModule, values: np.ndarray
) -> None:
    mean, sd = module.scale
    assert np.allclose(mean, values[:280].mean(0))
    assert np.allclose(sd, values[:280].std(0))


def test_later_rows_change_neither_scale_nor_training_windows(
    data: ForecastingData, values: np.ndarray, tmp_path: Path
) -> None:
    loud = values.copy()
    loud[-N_ROWS // 5 :] *= 100
    modules = [ForecastingDataModule(data, seed=1)]
    modules[0].setup()
    write_series(tmp_path / "series.csv", loud)
    modules.append(ForecastingDataModule(data, seed=1))
    quiet, noisy = modules
    assert not torch.equal(quiet.windows("test").future, noisy.windows("test").future)
    for one, other in zip(quiet.scale, noisy.scale, strict=True):
        assert torch.equal(one, other)
    for mine, theirs in zip(quiet.train_dataloader(), noisy.train_dataloader(), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(*map(fields_of, (mine, theirs)), strict=True))


def fields_of(batch: ForecastingBatch) -> list[Tensor]:
    return list(batch.tensors.values())


@pytest.mark.parametrize(
    ("kind", "country", "names"),
    [
        (TimeFeatures.none, "", []),
        (TimeFeatures.scalar, "", ["time"]),
        (TimeFeatures.continuous, "", ["hour", "hour", "weekday", "weekday", "year", "year"]),
        (
            TimeFeatures.continuous,
            "DE",
            ["hour", "hour", "weekday", "weekday", "year", "year", "holiday"],
        ),
    ],
)
def test_time_features_stand_by_their_rows(
    data: ForecastingData, kind: TimeFeatures, country: str, names: list[str]
) -> None:
    chosen = ForecastingData(**(vars(data) | {"time_features": kind, "holidays_country": country}))
    module = ForecastingDataModule(chosen, seed=1)
    batch = next(iter(module.test_dataloader()))
    assert batch.past_time.shape == (16, 24, len(names))
    assert batch.future_time.shape == (16, 6, len(names))
    assert module.n_time_features == len(names)
    assert [name.split("_")[0] for name in module.report["time_features"]] == names
    first_forecast = (320 + torch.arange(6)) / 279
    if kind is TimeFeatures.scalar:
        assert torch.allclose(batch.future_time[0, :, 0], first_forecast)
    if kind is TimeFeatures.continuous:
        hours = (320 + torch.arange(6)) % 24
        assert torch.allclose(
            batch.future_time[0, :, 0], torch.sin(2 * torch.pi * hours / 24), atol=1e-6
        )
    holidays = module.report["holidays"]
    assert (holidays or {"country": ""})["country"] == country


def test_the_report_is_plain_and_counts_everything(module: ForecastingDataModule) -> None:
    report = module.report
    assert module.channels == ("a", "b")
    assert module.n_channels == 2
    assert (report["rows"], report["unused_rows"], report["step"]) == (400, 0, "1:00:00")
    assert (report["first"], report["last"]) == ("2020-01-01 00:00:00", "2020-01-17 15:00:00")
    assert report["splits"]["test"] == {
        "first_row": 296,
        "rows": 104,
        "windows": 75,
        "constant_channels": [],
    }
    assert report["training_batches"] == len(order(module))
    assert json.loads(json.dumps(report)) == report


def test_a_channel_that_stands_still_later_is_reported(
    data: ForecastingData, values: np.ndarray, tmp_path: Path
) -> None:
    values[290:, 1] = 3.0
    write_series(tmp_path / "series.csv", values)
    splits = ForecastingDataModule(data, seed=1).report["splits"]
    constant = {name: split["constant_channels"] for name, split in splits.items()}
    assert constant == {"train": [], "validation": [], "test": ["b"]}


def test_a_checkpoint_of_another_scale_is_refused(
    data: ForecastingData, values: np.ndarray, tmp_path: Path
) -> None:
    state = ForecastingDataModule(data, seed=1).state_dict()
    ForecastingDataModule(data, seed=2).load_state_dict(state)
    write_series(tmp_path / "series.csv", values * 2)
    with pytest.raises(ValueError, match=r"the checkpoint's mean is \[.*the numbers would mean"):
        ForecastingDataModule(data, seed=1).load_state_dict(state)


@given(
    lookback=st.integers(1, 20),
    lookbacks=st.lists(st.integers(1, 60), min_size=1, max_size=4, unique=True),
)
def test_every_lookback_forecasts_the_same_rows_from_the_same_starts(
    shared_series: Path, lookback: int, lookbacks: list[int]
) -> None:
    wanted = ",".join(map(str, lookbacks))
    data = series_data(shared_series, lookback=lookback, eval_lookbacks=wanted)
    module = ForecastingDataModule(data, seed=1)
    trained, everything = module.windows("test"), module.windows("train").past.shape
    assert module.eval_lookbacks == tuple(lookbacks)
    for length in lookbacks:
        windows = module.test_windows(length)
        assert torch.equal(windows.future, trained.future)
        assert torch.equal(windows.future_time, trained.future_time)
        shared = min(length, lookback)
        assert windows.past.shape[1] == length
        assert torch.equal(windows.past[:, -shared:], trained.past[:, -shared:])
        assert torch.equal(windows.past_time[:, -shared:], trained.past_time[:, -shared:])
        # What came before is the row before, whatever split it is of.
        assert torch.equal(windows.past[1:, :-1], windows.past[:-1, 1:])
    assert module.windows("train").past.shape == everything


def test_a_lookback_of_no_test_is_refused(module: ForecastingDataModule) -> None:
    with pytest.raises(ValueError, match="no test windows of look-back 5; there are none"):
        module.test_dataloader(5)


def test_an_unknown_split_is_refused(module: ForecastingDataModule) -> None:
    with pytest.raises(ValueError, match="no split 'val'; there are train, validation, test"):
        module.windows("val")


def test_a_batch_moves_whole(module: ForecastingDataModule) -> None:
    batch = next(iter(module.val_dataloader()))
    assert len(batch) == 16
    assert {tensor.device.type for tensor in fields_of(batch.to("meta"))} == {"meta"}
    assert {tensor.dtype for tensor in fields_of(batch)} == {torch.float32, torch.int64}


def test_generated_load_has_windows_too() -> None:
    module = ForecastingDataModule(ForecastingData(n_hours=2000), seed=1)
    assert module.channels == ("load", "temperature")
    assert len(module.windows("train")) == 1400 - 168 - 24 + 1
    assert module.windows("train").past.isfinite().all()


def test_etth1_has_the_published_windows() -> None:
    data = ForecastingData(source=SeriesSource.etth1, path=str(ett_folder()))
    module = ForecastingDataModule(data, seed=1)
    counts = {name: split["windows"] for name, split in module.report["splits"].items()}
    assert counts == {"train": 8449, "validation": 2857, "test": 2857}
    assert module.report["unused_rows"] == 3020
    assert module.channels == ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")


def test_loud_last_months_change_nothing_in_the_training_on_etth1(tmp_path: Path) -> None:
    folder = ett_folder()
    frame = pd.read_csv(folder / "ETTh1.csv")
    last = frame.index[-len(frame) // 5 :]
    frame.loc[last, frame.columns[1:]] *= 100
    frame.to_csv(tmp_path / "ETTh1.csv", index=False)
    quiet, loud = (
        ForecastingDataModule(ForecastingData(source=SeriesSource.etth1, path=str(path)), seed=1)
        for path in (folder, tmp_path)
    )
    assert loud.windows("test").future.max() > 50 * quiet.windows("test").future.max()
    assert all(torch.equal(a, b) for a, b in zip(quiet.scale, loud.scale, strict=True))
    assert torch.equal(quiet.windows("train").past, loud.windows("train").past)
    assert torch.equal(quiet.windows("train").future, loud.windows("train").future)

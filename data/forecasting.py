"""Forecasting data: a series in, `ForecastingBatch`es out."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader

from data.calendar_features import continuous_features, scalar_feature
from data.row_batching import RowBatches, process_share
from data.series import (
    Fill,
    ForecastingData,
    SeriesSource,
    TimeFeatures,
    fingerprint,
    load_series,
    split_rows,
    test_lookbacks,
    validate,
)
from data.series_files import Series
from data.series_windows import Windows

__all__ = [
    "Fill",
    "ForecastingData",
    "ForecastingDataModule",
    "SeriesSource",
    "TimeFeatures",
    "Windows",
    "fingerprint",
    "validate",
]


class ForecastingDataModule(LightningDataModule):
    """Batches of windows for any Trainer.

    Values are scaled to mean 0 and standard deviation 1 by the training rows alone. No window is
    dropped and none comes twice, so a mean over windows depends neither on the batch size nor on
    the number of processes.

    Use a Trainer with `use_distributed_sampler=False`: the batches are shared out over the ranks
    here. The order of the training batches depends on the seed and the epoch only.

    Args:
        data: what to read.
        seed: picks the order of the training windows.
        cache_dir: where a published file is kept once downloaded; None to keep none.

    Attributes:
        data: as given.
    """

    def __init__(
        self, data: ForecastingData, *, seed: int, cache_dir: str | Path | None = None
    ) -> None:
        super().__init__()
        self.data = data
        self._seed = seed
        self._cache_dir = None if cache_dir is None else Path(cache_dir)
        self._series: Series | None = None

    def prepare_data(self) -> None:
        """Fetch what is not there.

        Raises:
            ValueError: As for `setup`.
        """
        self.setup()

    def setup(self, stage: str | None = None) -> None:
        """Read, scale and split the series, once.

        Raises:
            ValueError: As for `data.series.load_series`, `split_rows` and `Series.scale`.
        """
        if self._series is not None:
            return
        data, series = self.data, load_series(self.data, cache_dir=self._cache_dir)
        self._rows = split_rows(data, len(series.values))
        mean, sd = series.scale(self._rows["train"])
        self._scale = torch.from_numpy(mean), torch.from_numpy(sd)
        values = torch.from_numpy((series.values - mean) / sd).float()
        self._feature_names, features = self._features(series)
        self._rows_of_all = values, features
        self._windows = {
            name: self._windows_of(rows, lookback=data.lookback)
            for name, rows in self._rows.items()
        }
        self._series = series

    def _windows_of(self, rows: range, *, lookback: int) -> Windows:
        read = (part[rows.start : rows.stop] for part in self._rows_of_all)
        return Windows(*read, lookback=lookback, horizon=self.data.horizon)

    def _features(self, series: Series) -> tuple[tuple[str, ...], Tensor]:
        """Names, and values `(rows, features)`."""
        kind = self.data.time_features
        if kind is TimeFeatures.none:
            return (), torch.empty(len(series.values), 0)
        if kind is TimeFeatures.scalar:
            named = scalar_feature(series.stamps, n_train=len(self._rows["train"]))
        else:
            named = continuous_features(series.stamps, country=self.data.holidays_country)
        columns = [torch.from_numpy(column).float() for column in named.values()]
        return tuple(named), torch.stack(columns, dim=1)

    def _ready(self) -> Series:
        self.setup()
        assert self._series is not None
        return self._series

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the columns that are forecast."""
        return self._ready().channels

    @property
    def n_channels(self) -> int:
        """Columns that are forecast."""
        return len(self.channels)

    @property
    def n_time_features(self) -> int:
        """Numbers that tell the time of a row."""
        self._ready()
        return len(self._feature_names)

    @property
    def scale(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each channel in the training rows, `(channels,)` each.

        Original units are `scaled * sd + mean`; float64.
        """
        self._ready()
        return self._scale

    def windows(self, split: str) -> Windows:
        """All windows of `train`, `validation` or `test`, in order of time.

        Raises:
            ValueError: No such split.
        """
        self._ready()
        if split not in self._windows:
            raise ValueError(f"no split {split!r}; there are {', '.join(self._windows)}")
        return self._windows[split]

    def test_windows(self, lookback: int) -> Windows:
        """The test windows with another look-back, `(windows, lookback, channels)` of past.

        Whatever the look-back, the same rows are forecast from the same starts: only what is known
        before them grows. The longest one begins before the test split, with rows that were known
        by then.

        Raises:
            ValueError: It is none of `eval_lookbacks`.
        """
        known = test_lookbacks(self.data)
        if lookback not in known:
            named = ", ".join(map(str, known)) or "none"
            raise ValueError(f"no test windows of look-back {lookback}; there are {named}")
        self._ready()
        rows = self._rows["test"]
        first = rows.start + self.data.lookback
        return self._windows_of(range(first - lookback, rows.stop), lookback=lookback)

    @property
    def eval_lookbacks(self) -> tuple[int, ...]:
        """Rows of the past that the test windows are also evaluated with, in order."""
        return test_lookbacks(self.data)

    @property
    def report(self) -> dict[str, Any]:
        """What was read, as plain values."""
        series = self._ready()
        mean, sd = (values.tolist() for values in self._scale)
        n_rows = len(series.values)
        return {
            "fingerprint": fingerprint(self.data),
            "channels": list(series.channels),
            "time_features": list(self._feature_names),
            "rows": n_rows,
            "unused_rows": n_rows - self._rows["test"].stop,
            "first": str(series.stamps[0]),
            "last": str(series.stamps[-1]),
            **series.report,
            "holidays": self._holidays(),
            "scale": {"mean": mean, "sd": sd},
            "splits": {
                name: {
                    "first_row": rows.start,
                    "rows": len(rows),
                    "windows": len(self._windows[name]),
                    "constant_channels": series.constant_channels(rows),
                }
                for name, rows in self._rows.items()
            },
            "training_batches": len(self._batches("train")),
        }

    def _holidays(self) -> dict[str, Any] | None:
        """Which calendar was read; another version of the package may know other days."""
        if "holiday" not in self._feature_names:
            return None
        return {"country": self.data.holidays_country, "package": version("holidays")}

    def train_dataloader(self) -> DataLoader:
        """Every training window once an epoch, in random order."""
        return self._loader("train")

    def val_dataloader(self) -> DataLoader:
        """The validation windows, in order of time."""
        return self._loader("validation")

    def test_dataloader(self, lookback: int | None = None) -> DataLoader:
        """The test windows, in order of time; with another look-back, those of `test_windows`."""
        return self._loader("test", None if lookback is None else self.test_windows(lookback))

    def predict_dataloader(self, lookback: int | None = None) -> DataLoader:
        """The same as `test_dataloader`."""
        return self.test_dataloader(lookback)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint remembers of the data."""
        mean, sd = (values.tolist() for values in self.scale)
        return {"channels": list(self.channels), "mean": mean, "sd": sd}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Refuse to go on with other channels or another scale.

        Raises:
            ValueError: The checkpoint was trained with others.
        """
        here = self.state_dict()
        for name, there in state_dict.items():
            if here[name] != there:
                raise ValueError(
                    f"the checkpoint's {name} is {there}, this one is {here[name]}: the numbers"
                    " would mean something else"
                )

    def _batches(self, split: str) -> RowBatches:
        rank, world_size = process_share()
        return RowBatches(
            len(self.windows(split)),
            batch_size=self.data.batch_size,
            seed=self._seed,
            shuffle=split == "train",
            rank=rank,
            world_size=world_size,
        )

    def _loader(self, split: str, windows: Windows | None = None) -> DataLoader:
        return DataLoader(
            self.windows(split) if windows is None else windows,  # type: ignore[arg-type]
            sampler=self._batches(split),
            batch_size=None,
            # Its own generator: making an iterator must not move the one that draws dropout.
            generator=torch.Generator(),
            pin_memory=torch.cuda.is_available(),
        )

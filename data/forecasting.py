"""Forecasting data: a series in, `ForecastingBatch`es out."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader

from data.batches import ForecastingBatch
from data.batching import TokenBudgetSampler
from data.calendar_features import continuous_features, scalar_feature
from data.row_batching import process_share
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
from data.series_files import Series

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


class Windows:
    """Every window of a stretch of rows, at stride 1, as views of the rows.

    Args:
        values: scaled, `(rows, channels)`.
        features: of the time of each row, `(rows, features)`.
        lookback: rows known.
        horizon: rows to forecast.

    Attributes:
        past: `(windows, lookback, channels)`.
        future: `(windows, horizon, channels)`.
        past_time: `(windows, lookback, features)`.
        future_time: `(windows, horizon, features)`.
    """

    def __init__(self, values: Tensor, features: Tensor, *, lookback: int, horizon: int) -> None:
        sizes = [lookback, horizon]
        self.past, self.future = _unfold(values, sum(sizes)).split(sizes, dim=1)
        self.past_time, self.future_time = _unfold(features, sum(sizes)).split(sizes, dim=1)

    def __len__(self) -> int:
        return len(self.past)

    def __getitems__(self, indices: Sequence[int]) -> ForecastingBatch:
        """These windows as a batch: where a DataLoader looks first, to copy once a batch."""
        index = torch.tensor(indices)
        return ForecastingBatch(
            past=self.past[index],
            future=self.future[index],
            past_time=self.past_time[index],
            future_time=self.future_time[index],
            indices=index,
        )


def _unfold(rows: Tensor, length: int) -> Tensor:
    """`(rows, columns)` to `(windows, length, columns)`, a view."""
    return rows.unfold(0, length, 1).transpose(1, 2)


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
        self._windows = {
            name: Windows(
                values[rows.start : rows.stop],
                features[rows.start : rows.stop],
                lookback=data.lookback,
                horizon=data.horizon,
            )
            for name, rows in self._rows.items()
        }
        self._series = series

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
            "training_batches": len(self._sampler("train")),
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

    def test_dataloader(self) -> DataLoader:
        """The test windows, in order of time."""
        return self._loader("test")

    def predict_dataloader(self) -> DataLoader:
        """The same as `test_dataloader`."""
        return self.test_dataloader()

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

    def _sampler(self, split: str) -> TokenBudgetSampler:
        train = split == "train"
        rank, world_size = process_share()
        return TokenBudgetSampler(
            [(1, 1)] * len(self.windows(split)),  # a window is one token: batches of equal size
            tokens_per_batch=self.data.batch_size,
            seed=self._seed,
            shuffle=train,
            rank=rank,
            world_size=world_size,
        )

    def _loader(self, split: str) -> DataLoader:
        return DataLoader(
            self.windows(split),  # type: ignore[arg-type]
            batch_sampler=self._sampler(split),
            collate_fn=_whole,  # type: ignore[arg-type]
            # Its own generator: making an iterator must not move the one that draws dropout.
            generator=torch.Generator(),
            pin_memory=torch.cuda.is_available(),
        )


def _whole(batch: ForecastingBatch) -> ForecastingBatch:
    return batch

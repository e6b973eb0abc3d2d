"""A small table of two columns, and a module that reads it."""

from pathlib import Path

import numpy as np
import pandas as pd

from data.forecasting import ForecastingData, ForecastingDataModule, SeriesSource

N_ROWS = 400
SIZES = {"lookback": 24, "horizon": 6, "batch_size": 16}


def random_values() -> np.ndarray:
    """`(rows, 2)`."""
    return np.random.default_rng(1).normal([5, -100], [0.1, 30], (N_ROWS, 2))


def write_series(path: Path, values: np.ndarray) -> Path:
    """One row an hour."""
    frame = pd.DataFrame(values, columns=["a", "b"])
    frame.insert(0, "date", pd.date_range("2020-01-01", periods=len(frame), freq="h"))
    frame.to_csv(path, index=False)
    return path


def series_data(path: Path, **options: object) -> ForecastingData:
    """The table as data: 280 training rows, 40 for validation, 80 for testing."""
    return ForecastingData(source=SeriesSource.csv, path=str(path), **(SIZES | options))


def order(module: ForecastingDataModule, epoch: int = 0) -> list[list[int]]:
    """The windows of each training batch of an epoch."""
    loader = module.train_dataloader()
    loader.sampler.set_epoch(epoch)
    return [batch.indices.tolist() for batch in loader]

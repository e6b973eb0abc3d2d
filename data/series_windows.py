"""Windows of a series: what is known, and what is to be forecast."""

from collections.abc import Sequence

import torch
from torch import Tensor

from data.batches import ForecastingBatch


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

    def __getitem__(self, indices: Sequence[int]) -> ForecastingBatch:
        """These windows as a batch, copied once."""
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

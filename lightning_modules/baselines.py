"""Forecasts that a Transformer has to beat.

All of them map `(batch, lookback, channels)` to `(batch, horizon, channels)`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HOURS_PER_DAY, HOURS_PER_WEEK = 24, 168
PENALTIES = tuple(10.0**power for power in range(-2, 6))
ROWS_AT_ONCE = 1024  # windows in memory while fitting


def repeat_last(past: Tensor, *, horizon: int) -> Tensor:
    """The last value, again and again: `(batch, horizon, channels)`.

    Args:
        past: `(batch, lookback, channels)`.
        horizon: rows to forecast.
    """
    return seasonal_repeat(past, horizon=horizon, period=1)


def same_hour_yesterday(past: Tensor, *, horizon: int) -> Tensor:
    """The last 24 rows of an hourly series, repeated: `(batch, horizon, channels)`.

    Args:
        past: `(batch, lookback, channels)`, hourly.
        horizon: hours to forecast.

    Raises:
        ValueError: A look-back under 24.
    """
    return seasonal_repeat(past, horizon=horizon, period=HOURS_PER_DAY)


def same_hour_last_week(past: Tensor, *, horizon: int) -> Tensor:
    """The last 168 rows of an hourly series, repeated: `(batch, horizon, channels)`.

    Args:
        past: `(batch, lookback, channels)`, hourly.
        horizon: hours to forecast.

    Raises:
        ValueError: A look-back under 168.
    """
    return seasonal_repeat(past, horizon=horizon, period=HOURS_PER_WEEK)


def seasonal_repeat(past: Tensor, *, horizon: int, period: int) -> Tensor:
    """The last `period` rows, repeated as often as needed: `(batch, horizon, channels)`.

    Args:
        past: `(batch, lookback, channels)`.
        horizon: rows to forecast.
        period: rows of a cycle.

    Raises:
        ValueError: A look-back shorter than the cycle.
    """
    lookback = past.shape[1]
    if lookback < period:
        raise ValueError(
            f"lookback={lookback} is too short to repeat a cycle of {period} rows: at least"
            f" {period}"
        )
    steps = torch.arange(horizon, device=past.device) % period
    return past[:, lookback - period + steps]


@dataclass(frozen=True)
class Ridge:
    """A linear map from past to future, the same for all channels, in closed form.

    Attributes:
        weight: `(lookback, horizon)`, float64.
        bias: `(horizon,)`, float64; not penalised.
        penalty: the one of `penalties` with the smallest validation error.
    """

    weight: Tensor
    bias: Tensor
    penalty: float

    def __call__(self, past: Tensor) -> Tensor:
        """Forecast `(batch, horizon, channels)` from `past` `(batch, lookback, channels)`."""
        rows = past.transpose(1, 2).to(self.weight.dtype)
        return (rows @ self.weight + self.bias).transpose(1, 2).to(past.dtype)


def fit_ridge(
    past: Tensor,
    future: Tensor,
    *,
    validation_past: Tensor,
    validation_future: Tensor,
    penalties: Sequence[float] = PENALTIES,
) -> Ridge:
    """Solve the normal equations once for each penalty, and keep the best on validation.

    Args:
        past: training windows, `(windows, lookback, channels)`.
        future: what came, `(windows, horizon, channels)`.
        validation_past: as `past`, to choose the penalty by.
        validation_future: as `future`.
        penalties: of the squared weights, in windows x channels; all over 0.

    Raises:
        ValueError: No penalty, or one that is not over 0.
    """
    if not penalties or min(penalties) <= 0:
        raise ValueError(f"penalties={tuple(penalties)}: at least one, each over 0")
    covariance, cross, past_mean, future_mean = _moments(past, future)
    diagonal = torch.eye(len(covariance), dtype=torch.float64)
    maps = []
    for penalty in penalties:
        weight = torch.linalg.solve(covariance + penalty * diagonal, cross)
        maps.append(Ridge(weight, future_mean - past_mean @ weight, penalty))
    return min(
        maps, key=lambda ridge: mean_squared_error(ridge, validation_past, validation_future)
    )


def _moments(past: Tensor, future: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Centred sums of squares `(lookback, lookback)` and products `(lookback, horizon)`, means."""
    lookback, n = past.shape[1], past.shape[0] * past.shape[2]
    both = lookback + future.shape[1]
    squares, total = torch.zeros(both, both, dtype=torch.float64), torch.zeros(both).double()
    for chunk in zip(past.split(ROWS_AT_ONCE), future.split(ROWS_AT_ONCE), strict=True):
        rows = torch.cat(chunk, dim=1).double().transpose(1, 2).flatten(0, 1)
        squares += rows.T @ rows
        total += rows.sum(0)
    mean = total / n
    centred = squares - n * torch.outer(mean, mean)
    return (
        centred[:lookback, :lookback],
        centred[:lookback, lookback:],
        mean[:lookback],
        mean[lookback:],
    )


def mean_squared_error(forecast: Callable[[Tensor], Tensor], past: Tensor, future: Tensor) -> float:
    """Mean over all windows, rows and channels, however many windows there are."""
    total = sum(
        F.mse_loss(forecast(before), after, reduction="sum").double().item()
        for before, after in zip(past.split(ROWS_AT_ONCE), future.split(ROWS_AT_ONCE), strict=True)
    )
    return total / future.numel()


class DLinear(nn.Module):
    """One linear map for the trend and one for the rest, shared by all channels.

    Zeng et al. 2023, section 4 ("Are Transformers Effective for Time Series Forecasting?"): the
    trend is a moving average over the past, whose ends are repeated to keep its length.

    Args:
        lookback: rows of the past.
        horizon: rows to forecast.
        kernel_size: rows averaged, odd.

    Raises:
        ValueError: An even kernel, which has no middle.
    """

    def __init__(self, *, lookback: int, horizon: int, kernel_size: int = 25) -> None:
        super().__init__()
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f"kernel_size={kernel_size} has no middle row: an odd number over 0")
        self.kernel_size = kernel_size
        self.trend = nn.Linear(lookback, horizon)
        self.rest = nn.Linear(lookback, horizon)

    def forward(self, past: Tensor) -> Tensor:
        """Forecast `(batch, horizon, channels)` from `past` `(batch, lookback, channels)`."""
        rows = past.transpose(1, 2)
        margin = self.kernel_size // 2
        padded = F.pad(rows, (margin, margin), mode="replicate")
        trend = F.avg_pool1d(padded, self.kernel_size, stride=1)
        return (self.trend(trend) + self.rest(rows - trend)).transpose(1, 2)


class MLP(nn.Module):
    """Two linear maps with a ReLU between, over the rows of each channel, shared by all channels.

    Args:
        lookback: rows of the past.
        horizon: rows to forecast.
        width: hidden units.
    """

    def __init__(self, *, lookback: int, horizon: int, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(lookback, width), nn.ReLU(), nn.Linear(width, horizon)
        )

    def forward(self, past: Tensor) -> Tensor:
        """Forecast `(batch, horizon, channels)` from `past` `(batch, lookback, channels)`."""
        return self.layers(past.transpose(1, 2)).transpose(1, 2)


class LSTM(nn.Module):
    """Reads all channels row by row; its last state gives the whole forecast at once.

    Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000.

    Args:
        n_channels: columns of the series.
        horizon: rows to forecast.
        width: hidden units of a layer.
        n_layers: layers on top of each other.
    """

    def __init__(
        self,
        *,
        n_channels: int,
        horizon: int,
        width: int = 128,
        n_layers: int = 1,
    ) -> None:
        super().__init__()
        self.shape = (horizon, n_channels)
        self.recurrent = nn.LSTM(n_channels, width, n_layers, batch_first=True)
        self.head = nn.Linear(width, horizon * n_channels)

    def forward(self, past: Tensor) -> Tensor:
        """Forecast `(batch, horizon, channels)` from `past` `(batch, lookback, channels)`."""
        states, _ = self.recurrent(past)
        return self.head(states[:, -1]).unflatten(1, self.shape)

"""Forecasters: a Transformer over the past of a series, and what it has to beat.

Every model maps a `ForecastingBatch` to the forecast `(batch, horizon, channels)`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from data.batches import ForecastingBatch
from lightning_modules import baselines
from lightning_modules.axes.forecasting import ChannelMixing, TokenKind, WindowNorm
from lightning_modules.axis import Axis, Level
from lightning_modules.design import Design, Dims
from lightning_modules.masks import AttentionMask
from lightning_modules.readouts import Readout, WindowShape
from lightning_modules.transformer import Stack


class TransformerForecaster(nn.Module):
    """Tokens of the past through an encoder, then a readout.

    Args:
        shape: of the windows.
        design: the choices of the Transformer.
        dims: the sizes; `n_decoder_layers` counts for readouts with a decoder.
        variant: the choices of the forecaster.
    """

    def __init__(
        self, shape: WindowShape, *, design: Design, dims: Dims, variant: "ForecastVariant"
    ) -> None:
        super().__init__()
        self.shape, self.mixing = shape, variant.channels
        self.window_norm = variant.window_norm()
        n_values = variant.channels.n_channels(shape.n_channels) + shape.n_time_features
        self.tokens = variant.tokens(n_values, shape.lookback, dims.d_model, variant)
        self.encoder = Stack(design, dims, n_layers=dims.n_encoder_layers, causal=False)
        self.readout = variant.readout(
            shape,
            design=design,
            dims=dims,
            n_tokens=self.tokens.n_tokens,
            n_channels=variant.channels.n_channels(shape.n_channels),
        )

    def forward(self, batch: ForecastingBatch) -> Tensor:
        """Forecast `(batch, horizon, channels)`; in training a decoder may read the future."""
        n_channels = self.shape.n_channels
        past, mean, deviation = self.window_norm(batch.past)
        rows = self.mixing(past)
        past_time, future_time = (
            self.mixing.repeat_time(time, n_channels)
            for time in (batch.past_time, batch.future_time)
        )
        tokens = self.tokens(torch.cat([rows, past_time], dim=-1))
        memory = self.encoder(tokens, mask=AttentionMask())
        future = self.mixing((batch.future - mean) / deviation) if self.training else None
        forecast = self.readout(memory, last=rows[:, -1:], time=future_time, future=future)
        return self.mixing.restore(forecast, n_channels) * deviation + mean


class FromPast(nn.Module):
    """A baseline that sees the past values alone.

    Args:
        forecast: maps `(batch, lookback, channels)` to `(batch, horizon, channels)`.
    """

    def __init__(self, forecast: nn.Module) -> None:
        super().__init__()
        self.forecast = forecast

    def forward(self, batch: ForecastingBatch) -> Tensor:
        """Forecast `(batch, horizon, channels)`."""
        return self.forecast(batch.past)


class Repetition(nn.Module):
    """A rule without parameters, as a module.

    Args:
        rule: maps the past to the forecast, given the `horizon`.
        horizon: rows to forecast.
    """

    def __init__(self, rule: Callable[..., Tensor], horizon: int) -> None:
        super().__init__()
        self.rule, self.horizon = rule, horizon

    def forward(self, past: Tensor) -> Tensor:
        """Forecast `(batch, horizon, channels)` from `past` `(batch, lookback, channels)`."""
        return self.rule(past, horizon=self.horizon)


class RidgeForecaster(nn.Module):
    """The linear map of `baselines.fit_ridge`, solved, not trained.

    Args:
        shape: of the windows.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, shape: WindowShape) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(shape.lookback, shape.horizon).double())
        self.register_buffer("bias", torch.zeros(shape.horizon).double())

    def solve(self, train: tuple[Tensor, Tensor], validation: tuple[Tensor, Tensor]) -> None:
        """Fit on `(past, future)` windows, with the penalty that is best on validation."""
        ridge = baselines.fit_ridge(
            *train, validation_past=validation[0], validation_future=validation[1]
        )
        self.weight.copy_(ridge.weight), self.bias.copy_(ridge.bias)

    def forward(self, past: Tensor) -> Tensor:
        """Forecast `(batch, horizon, channels)` from `past` `(batch, lookback, channels)`."""
        return baselines.Ridge(self.weight, self.bias, penalty=0.0)(past)


def _rule(rule: Callable[..., Tensor], shape: WindowShape, **_: object) -> FromPast:
    return FromPast(Repetition(rule, shape.horizon))


def _ridge(shape: WindowShape, **_: object) -> FromPast:
    return FromPast(RidgeForecaster(shape))


def _dlinear(shape: WindowShape, **_: object) -> FromPast:
    return FromPast(baselines.DLinear(lookback=shape.lookback, horizon=shape.horizon))


def _mlp(shape: WindowShape, *, dims: Dims, **_: object) -> FromPast:
    width = dims.d_ff
    return FromPast(baselines.MLP(lookback=shape.lookback, horizon=shape.horizon, width=width))


def _lstm(shape: WindowShape, *, dims: Dims, **_: object) -> FromPast:
    return FromPast(
        baselines.LSTM(
            n_channels=shape.n_channels,
            horizon=shape.horizon,
            width=dims.d_model,
            n_layers=dims.n_encoder_layers,
        )
    )


class ForecastModel(Axis):
    """What forecasts: `level(shape, design=, dims=, variant=) -> module(batch)`."""

    transformer = Level(TransformerForecaster, "what is studied", "Vaswani et al. 2017")
    dlinear = Level(_dlinear, "two linear maps, of the trend and of the rest", "Zeng et al. 2023")
    mlp = Level(_mlp, "two linear maps with a ReLU between, d_ff wide", "Rumelhart et al. 1986")
    lstm = Level(
        _lstm,
        "a recurrent network, d_model wide, with n_encoder_layers layers",
        "Hochreiter & Schmidhuber 1997",
    )
    ridge = Level(_ridge, "one linear map in closed form", "Hoerl & Kennard 1970")
    repeat_last = Level(
        partial(_rule, baselines.repeat_last), "the last value, again and again", "Zeng et al. 2023"
    )
    same_hour_yesterday = Level(
        partial(_rule, baselines.same_hour_yesterday), "the last day, again", "a rule of thumb"
    )
    same_hour_last_week = Level(
        partial(_rule, baselines.same_hour_last_week), "the last week, again", "a rule of thumb"
    )

    @property
    def trains(self) -> bool:
        """Whether it has weights to train; the others cost seconds."""
        return self.name not in UNTRAINED

    @property
    def hourly(self) -> bool:
        """Whether it takes rows for hours."""
        return self.name in SHORTEST_LOOKBACK

    @property
    def fixed_lookback(self) -> bool:
        """Whether it has a weight for each row of the trained look-back."""
        return self.name in FIXED_LOOKBACK

    @property
    def shortest_lookback(self) -> int:
        """Rows of the past that it needs."""
        return SHORTEST_LOOKBACK.get(self.name, 1)


UNTRAINED = ("ridge", "repeat_last", "same_hour_yesterday", "same_hour_last_week")
FIXED_LOOKBACK = ("dlinear", "mlp", "ridge")
SHORTEST_LOOKBACK = {
    ForecastModel.same_hour_yesterday.name: baselines.HOURS_PER_DAY,
    ForecastModel.same_hour_last_week.name: baselines.HOURS_PER_WEEK,
}


@dataclass(frozen=True, kw_only=True)
class ForecastVariant:
    """The choices of a forecaster, beside those of its Transformer.

    Attributes:
        model: what forecasts; all others see the past values alone.
        tokens: what a token is made of.
        patch_length: rows in a patch.
        patch_stride: rows from one patch to the next.
        channels: whether channels see each other.
        window_norm: what is done to a window and undone on its forecast.
        readout: how the forecast comes out.

    Raises:
        ValueError: A number out of range.
    """

    model: ForecastModel = ForecastModel.transformer
    tokens: TokenKind = TokenKind.patch
    patch_length: int = 16
    patch_stride: int = 8
    channels: ChannelMixing = ChannelMixing.independent
    window_norm: WindowNorm = WindowNorm.reversible
    readout: Readout = Readout.head

    def __post_init__(self) -> None:
        for name in ("patch_length", "patch_stride"):
            if getattr(self, name) < 1:
                raise ValueError(f"variant.{name}={getattr(self, name)} must be at least 1")

    def undefined_at(self, lookback: int, *, trained: int) -> str:
        """Why what was trained on `trained` rows can't read `lookback` rows; empty where it can."""
        reads_tokens = self.model is ForecastModel.transformer
        for path, choice, fixed in (
            ("variant.model", self.model, self.model.fixed_lookback),
            ("variant.readout", self.readout, reads_tokens and self.readout.fixed_lookback),
        ):
            if fixed and lookback != trained:
                return f"{path} {choice} has weights for data.lookback {trained} rows, no others"
        if lookback < self.model.shortest_lookback:
            return f"variant.model {self.model} needs {self.model.shortest_lookback} rows"
        return ""

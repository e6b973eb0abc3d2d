"""How a forecast comes out of the states of an encoder."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lightning_modules.axis import Axis, Level
from lightning_modules.cache import Cache
from lightning_modules.design import Design, Dims
from lightning_modules.masks import AttentionMask
from lightning_modules.transformer import Stack


@dataclass(frozen=True, kw_only=True)
class WindowShape:
    """What a window looks like.

    Attributes:
        lookback: rows of the past.
        horizon: rows to forecast.
        n_channels: columns that are forecast.
        n_time_features: numbers that tell the time of a row.
    """

    lookback: int
    horizon: int
    n_channels: int
    n_time_features: int


class Head(nn.Module):
    """One linear map from all states to the whole forecast (Nie et al. 2023, section 3.1).

    Args:
        shape: of the windows.
        design: the choices of the Transformer.
        dims: the sizes.
        n_tokens: states of the encoder.
        n_channels: channels of one series.
    """

    fixed_lookback = True

    def __init__(
        self, shape: WindowShape, *, design: Design, dims: Dims, n_tokens: int, n_channels: int
    ) -> None:
        super().__init__()
        self.rows = (shape.horizon, n_channels)
        self.project = nn.Linear(n_tokens * dims.d_model, shape.horizon * n_channels)

    def forward(
        self, memory: Tensor, *, last: Tensor, time: Tensor, future: Tensor | None
    ) -> Tensor:
        """States `(series, tokens, d_model)` to `(series, horizon, channels)`."""
        return self.project(memory.flatten(1)).unflatten(1, self.rows)


class OneShotDecoder(nn.Module):
    """A decoder over the rows to come, all at once (Zhou et al. 2021, section 3.3).

    Arguments as for `Head`.
    """

    causal = False
    fixed_lookback = False

    def __init__(
        self, shape: WindowShape, *, design: Design, dims: Dims, n_tokens: int, n_channels: int
    ) -> None:
        super().__init__()
        self.n_layers, self.n_channels = dims.n_decoder_layers, n_channels
        self.enter = nn.Linear(n_channels + shape.n_time_features, dims.d_model)
        self.decoder = Stack(
            design,
            dims,
            n_layers=dims.n_decoder_layers,
            causal=self.causal,
            cross_attention=True,
        )
        self.leave = nn.Linear(dims.d_model, n_channels)

    def decode(self, rows: Tensor, memory: Tensor, *, causal: bool, cache: Cache | None) -> Tensor:
        """Rows `(series, rows, values)` to forecasts `(series, rows, channels)`."""
        mask = AttentionMask(causal=causal)
        return self.leave(self.decoder(self.enter(rows), mask=mask, memory=memory, cache=cache))

    def forward(
        self, memory: Tensor, *, last: Tensor, time: Tensor, future: Tensor | None
    ) -> Tensor:
        """States `(series, tokens, d_model)` to `(series, horizon, channels)`.

        A row is the last known values with the time features of its own hour.
        """
        known = last.expand(-1, time.shape[1], -1)
        return self.decode(torch.cat([known, time], dim=-1), memory, causal=False, cache=None)


class AutoregressiveDecoder(OneShotDecoder):
    """A causal decoder that reads the row before, in training the true one.

    Arguments as for `Head`. Each forecast is a change from the row before.
    """

    causal = True

    def __init__(
        self, shape: WindowShape, *, design: Design, dims: Dims, n_tokens: int, n_channels: int
    ) -> None:
        super().__init__(shape, design=design, dims=dims, n_tokens=n_tokens, n_channels=n_channels)
        self.causal_mask: bool = design.causal_mask()

    def forward(
        self, memory: Tensor, *, last: Tensor, time: Tensor, future: Tensor | None
    ) -> Tensor:
        """States `(series, tokens, d_model)` to `(series, horizon, channels)`."""
        if future is not None:
            before = torch.cat([last, future[:, :-1]], dim=1)
            rows = torch.cat([before, time], dim=-1)
            return before + self.decode(rows, memory, causal=self.causal_mask, cache=None)
        cache, steps = Cache(self.n_layers), []
        for hour in time.split(1, dim=1):
            rows = torch.cat([last, hour], dim=-1)
            last = last + self.decode(rows, memory, causal=self.causal_mask, cache=cache)
            steps.append(last)
        return torch.cat(steps, dim=1)


class Readout(Axis):
    """How the forecast comes out: `level(shape, design=, dims=, n_tokens=, n_channels=)`."""

    head = Level(Head, "one linear map from all states of an encoder", "Nie et al. 2023, 3.1")
    one_shot = Level(
        OneShotDecoder,
        "a decoder over the rows to come, all at once",
        "Zhou et al. 2021 (Informer), section 3.3",
    )
    autoregressive = Level(
        AutoregressiveDecoder,
        "a causal decoder that reads its own forecast row by row",
        "Vaswani et al. 2017, section 3; Li et al. 2019",
    )

    @property
    def fixed_lookback(self) -> bool:
        """Whether it has weights for each state of the trained look-back."""
        return self.value.make.fixed_lookback  # type: ignore[attr-defined]

"""Axes of a forecaster: what a token is, how the forecast is read off, and what is normalised."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from lightning_modules.axis import Axis, Level

if TYPE_CHECKING:
    from lightning_modules.forecaster import ForecastVariant


class PointTokens(nn.Module):
    """A token for each row of the past.

    Args:
        n_values: numbers in a row, time features included.
        lookback: rows.
        d_model: width of a token.
        variant: sizes of patches.
    """

    def __init__(
        self, n_values: int, lookback: int, d_model: int, variant: "ForecastVariant"
    ) -> None:
        super().__init__()
        self.n_tokens = self.count(lookback)
        self.project = nn.Linear(n_values, d_model)

    def count(self, lookback: int) -> int:
        """Tokens made of so many rows."""
        return lookback

    def spans(self, lookback: int) -> list[tuple[int, int]]:
        """First row of each token, and the one after its last."""
        return [(row, row + 1) for row in range(self.count(lookback))]

    def forward(self, rows: Tensor) -> Tensor:
        """`(batch, lookback, n_values)` to `(batch, n_tokens, d_model)`."""
        return self.project(rows)


class PatchTokens(nn.Module):
    """A token for each stretch of rows; the last row is repeated to fill the last stretch.

    Nie et al. 2023 (PatchTST), section 3.1: `patch_length` rows every `patch_stride` rows, after
    `patch_stride` copies of the last row.
    """

    def __init__(
        self, n_values: int, lookback: int, d_model: int, variant: "ForecastVariant"
    ) -> None:
        super().__init__()
        self.length, self.stride = min(variant.patch_length, lookback), variant.patch_stride
        self.n_tokens = self.count(lookback)
        self.project = nn.Linear(n_values * self.length, d_model)

    def count(self, lookback: int) -> int:
        """Tokens made of so many rows; at least `patch_length`, or the trained look-back."""
        return (lookback - self.length) // self.stride + 2

    def spans(self, lookback: int) -> list[tuple[int, int]]:
        """First row of each token, and the one after its last, copies of the last row counted."""
        starts = (self.stride * token for token in range(self.count(lookback)))
        return [(start, start + self.length) for start in starts]

    def forward(self, rows: Tensor) -> Tensor:
        """`(batch, lookback, n_values)` to `(batch, n_tokens, d_model)`."""
        padded = torch.cat([rows, rows[:, -1:].expand(-1, self.stride, -1)], dim=1)
        return self.project(padded.unfold(1, self.length, self.stride).flatten(2))


class TokenKind(Axis):
    """What a token is made of: `level(n_values, lookback, d_model, variant) -> module`."""

    patch = Level(PatchTokens, "a stretch of rows: fewer tokens, local shape in each", "Nie 2023")
    point = Level(PointTokens, "a row", "Zhou et al. 2021 (Informer)")


class ChannelMixing(Axis):
    """Whether channels see each other: `level(rows) -> rows`, and `restore` undoes it."""

    independent = Level(
        lambda rows: rows.transpose(1, 2).flatten(0, 1).unsqueeze(-1),
        "each channel is a series of its own, forecast by the same model",
        "Nie et al. 2023, section 3.1",
    )
    mixed = Level(lambda rows: rows, "a token holds all channels", "Zhou et al. 2021 (Informer)")

    def n_channels(self, n_channels: int) -> int:
        """Channels of one series."""
        return 1 if self is ChannelMixing.independent else n_channels

    def repeat_time(self, features: Tensor, n_channels: int) -> Tensor:
        """Time features `(batch, rows, features)` for each series."""
        if self is ChannelMixing.mixed:
            return features
        return features.repeat_interleave(n_channels, dim=0)

    def restore(self, rows: Tensor, n_channels: int) -> Tensor:
        """`(series, rows, channels of a series)` to `(batch, rows, channels)`."""
        if self is ChannelMixing.mixed:
            return rows
        return rows.squeeze(-1).unflatten(0, (-1, n_channels)).transpose(1, 2)


class InstanceNorm(nn.Module):
    """Each window scaled by its own past, and its forecast scaled back (Kim et al. 2022, eq. 1-3).

    Without the paper's trained gain and bias, which the first and last map can take over.
    """

    def forward(self, past: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`(batch, lookback, channels)` scaled, with mean and deviation `(batch, 1, channels)`."""
        mean = past.mean(1, keepdim=True)
        deviation = (past.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        return (past - mean) / deviation, mean, deviation


class NoInstanceNorm(nn.Module):
    """Windows as they are."""

    def forward(self, past: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`past` with mean 0 and deviation 1, `(batch, 1, channels)`."""
        zero = torch.zeros_like(past[:, :1])
        return past, zero, zero + 1


class WindowNorm(Axis):
    """What is done to a window and undone on its forecast: `level() -> module`."""

    reversible = Level(InstanceNorm, "each window by its own mean and deviation", "Kim et al. 2022")
    none = Level(NoInstanceNorm, "windows as they are", "Zhou et al. 2021 (Informer)")

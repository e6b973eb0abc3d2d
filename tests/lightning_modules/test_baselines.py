"""Baselines by hand, against other people's solvers, and their published numbers."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from data.forecasting import ForecastingData, ForecastingDataModule, SeriesSource
from lightning_modules.baselines import (
    LSTM,
    MLP,
    DLinear,
    Ridge,
    fit_ridge,
    mean_squared_error,
    repeat_last,
    same_hour_last_week,
    same_hour_yesterday,
    seasonal_repeat,
)
from tests.ett import ett_folder

TRAINABLE: dict[str, Callable[[], nn.Module]] = {
    "dlinear": partial(DLinear, lookback=30, horizon=5),
    "mlp": partial(MLP, lookback=30, horizon=5, width=16),
    "lstm": partial(LSTM, n_channels=3, horizon=5, width=8, n_layers=2),
}


def windows(
    n: int, lookback: int, horizon: int, channels: int = 3, seed: int = 0
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(n, lookback + horizon, channels, generator=generator)
    return values[:, :lookback], values[:, lookback:]


@given(period=st.integers(1, 12), more=st.integers(0, 8), horizon=st.integers(1, 40))
def test_a_repeat_is_the_value_one_period_back(period: int, more: int, horizon: int) -> None:
    past, _ = windows(2, period + more, 1)
    series = past
    for _ in range(horizon):
        series = torch.cat([series, series[:, -period : series.shape[1] - period + 1]], dim=1)
    expected = series[:, past.shape[1] :]
    assert torch.equal(seasonal_repeat(past, horizon=horizon, period=period), expected)


def test_the_named_repeats() -> None:
    past = torch.arange(200.0).view(1, 200, 1)
    assert repeat_last(past, horizon=3).flatten().tolist() == [199, 199, 199]
    yesterday = same_hour_yesterday(past, horizon=26).flatten().tolist()
    assert yesterday[:2] + yesterday[-2:] == [176, 177, 176, 177]
    assert same_hour_last_week(past, horizon=2).flatten().tolist() == [32, 33]


@pytest.mark.parametrize(
    ("repeat", "needed"), [(same_hour_yesterday, 24), (same_hour_last_week, 168)]
)
def test_a_short_past_has_no_such_hour(repeat: Callable, needed: int) -> None:
    past, _ = windows(1, needed - 1, 1)
    with pytest.raises(ValueError, match=f"lookback={needed - 1} is too short.*at least {needed}"):
        repeat(past, horizon=1)


def fit(past: Tensor, future: Tensor, *penalties: float) -> Ridge:
    held_out = windows(50, past.shape[1], future.shape[1], seed=1)
    return fit_ridge(
        past,
        future,
        validation_past=held_out[0],
        validation_future=held_out[1],
        penalties=penalties,
    )


def test_ridge_solves_least_squares_with_a_free_intercept() -> None:
    """The same problem handed to numpy: a row of penalty for each weight, none for the bias."""
    past, future = windows(2500, 6, 2)
    future = future + past[:, -2:] + 3.0
    ridge = fit(past, future, 7.0)
    rows = past.transpose(1, 2).reshape(-1, 6).double().numpy()
    targets = future.transpose(1, 2).reshape(-1, 2).double().numpy()
    design = np.block([[rows, np.ones((len(rows), 1))], [7**0.5 * np.eye(6), np.zeros((6, 1))]])
    solution, *_ = np.linalg.lstsq(design, np.vstack([targets, np.zeros((6, 2))]), rcond=None)
    assert np.allclose(ridge.weight, solution[:6])
    assert np.allclose(ridge.bias, solution[6])
    forecast = ridge(past[:4])
    assert forecast.dtype == past.dtype
    by_hand = past[:4].transpose(1, 2) @ ridge.weight.float() + ridge.bias.float()
    assert torch.allclose(forecast, by_hand.transpose(1, 2), atol=1e-5)


def test_the_penalty_is_chosen_on_validation_not_on_training() -> None:
    """On training windows the smallest penalty always wins; noise wants the largest."""
    past, future = windows(30, 20, 2)
    assert fit(past, future, 1e-3, 1e6, 10.0).penalty == 1e6
    validated = fit_ridge(
        past, future, validation_past=past, validation_future=future, penalties=(1e6, 1e-3, 10.0)
    )
    assert validated.penalty == 1e-3


@pytest.mark.parametrize("penalties", [(), (0.0, 1.0), (-1.0,)])
def test_penalties_are_positive(penalties: tuple[float, ...]) -> None:
    past, future = windows(10, 4, 2)
    with pytest.raises(ValueError, match="at least one, each over 0"):
        fit(past, future, *penalties)


def test_the_error_is_a_mean_over_all_windows() -> None:
    past, future = windows(1500, 4, 2)
    error = mean_squared_error(partial(repeat_last, horizon=2), past, future)
    assert error == pytest.approx(F.mse_loss(repeat_last(past, horizon=2), future).item())


def test_dlinear_by_hand() -> None:
    """Trend by a loop over rows, ends repeated; the rest is what the trend leaves."""
    torch.manual_seed(0)
    model = DLinear(lookback=30, horizon=5, kernel_size=7)
    past, _ = windows(2, 30, 5)
    rows = [[past[:, min(max(t + s, 0), 29)] for s in range(-3, 4)] for t in range(30)]
    trend = torch.stack([torch.stack(row).mean(0) for row in rows], dim=1)
    expected = torch.stack(
        [
            model.trend(trend[..., channel]) + model.rest((past - trend)[..., channel])
            for channel in range(3)
        ],
        dim=2,
    )
    assert torch.allclose(model(past), expected, atol=1e-6)
    assert sum(p.numel() for p in model.parameters()) == 2 * (30 * 5 + 5)


def test_an_even_kernel_has_no_middle() -> None:
    for kernel_size in (0, 24, -1):
        with pytest.raises(ValueError, match=f"kernel_size={kernel_size} has no middle row"):
            DLinear(lookback=30, horizon=5, kernel_size=kernel_size)


@pytest.mark.parametrize("name", TRAINABLE)
def test_trainable_baselines_map_windows_to_forecasts_and_use_every_weight(name: str) -> None:
    torch.manual_seed(0)
    model = TRAINABLE[name]()
    past, future = windows(4, 30, 5)
    forecast = model(past)
    assert forecast.shape == future.shape
    F.mse_loss(forecast, future).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().sum() > 0, parameter_name
    assert torch.allclose(model(past[1:2]), forecast[1:2], atol=1e-6)


@pytest.mark.parametrize("name", TRAINABLE)
def test_who_sees_the_other_channels(name: str) -> None:
    torch.manual_seed(0)
    model = TRAINABLE[name]()
    past, _ = windows(1, 30, 5)
    other = past.clone()
    other[..., 0] += 1.0
    changed = (model(past) - model(other)).abs().amax((0, 1)) > 1e-6
    assert changed.tolist() == ([True] * 3 if name == "lstm" else [True, False, False])


def etth1(lookback: int, horizon: int, batch_size: int = 32) -> ForecastingDataModule:
    data = ForecastingData(
        source=SeriesSource.etth1,
        path=str(ett_folder()),
        lookback=lookback,
        horizon=horizon,
        batch_size=batch_size,
    )
    return ForecastingDataModule(data, seed=1)


def errors(batches: list[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """MSE and MAE over all windows, from the batches' sums."""
    n = sum(future.numel() for _, future in batches)
    squares = sum(
        (forecast - future).square().double().sum().item() for forecast, future in batches
    )
    sizes = sum((forecast - future).abs().double().sum().item() for forecast, future in batches)
    return squares / n, sizes / n


@pytest.mark.parametrize(
    ("horizon", "published", "whole"),
    [
        (96, (1.295, 0.713), (1.294, 0.713)),
        (192, (1.325, 0.733), (1.325, 0.733)),
        (336, (1.323, 0.744), (1.330, 0.746)),
        (720, (1.339, 0.756), (1.335, 0.755)),
    ],
)
def test_repeat_is_as_published_on_etth1(
    horizon: int, published: tuple[float, float], whole: tuple[float, float]
) -> None:
    """Zeng et al. 2023, table 2: made from whole batches of 32, the last windows left out."""
    module = etth1(96, horizon)
    batches = [
        (repeat_last(batch.past, horizon=horizon), batch.future)
        for batch in module.test_dataloader()
    ]
    assert sum(len(future) for _, future in batches) == 2880 - horizon + 1
    full = [pair for pair in batches if len(pair[1]) == 32]
    assert tuple(round(error, 3) for error in errors(full)) == published
    assert tuple(round(error, 3) for error in errors(batches)) == whole


@pytest.mark.parametrize("batch_size", [1, 32, 512])
def test_the_score_is_the_same_at_every_batch_size(batch_size: int) -> None:
    loader = etth1(168, 24, batch_size).test_dataloader()
    batches = [(repeat_last(batch.past, horizon=24), batch.future) for batch in loader]
    assert errors(batches) == pytest.approx((1.222018, 0.670588), abs=2e-6)


@pytest.mark.parametrize("world_size", [1, 2])
def test_the_score_is_the_same_on_one_and_two_processes(
    world_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = []
    for rank in range(world_size):
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", partial(int, rank))
        monkeypatch.setattr(torch.distributed, "get_world_size", partial(int, world_size))
        for batch in etth1(168, 24).test_dataloader():
            batches.append((repeat_last(batch.past, horizon=24), batch.future))
    assert sum(len(future) for _, future in batches) == 2857
    assert errors(batches) == pytest.approx((1.222018, 0.670588), abs=2e-6)


def test_168_to_24_on_etth1() -> None:
    module = etth1(168, 24)
    train, validation, test = map(module.windows, ("train", "validation", "test"))
    ridge = fit_ridge(
        train.past,
        train.future,
        validation_past=validation.past,
        validation_future=validation.future,
    )
    forecasts = {
        "repeat last": repeat_last(test.past, horizon=24),
        "same hour yesterday": same_hour_yesterday(test.past, horizon=24),
        "same hour last week": same_hour_last_week(test.past, horizon=24),
        "ridge": ridge(test.past),
    }
    found = {
        name: tuple(round(error, 4) for error in errors([(forecast, test.future)]))
        for name, forecast in forecasts.items()
    }
    assert found == {
        "repeat last": (1.2220, 0.6706),
        "same hour yesterday": (0.4244, 0.3892),
        "same hour last week": (0.6689, 0.5106),
        "ridge": (0.3140, 0.3565),
    }

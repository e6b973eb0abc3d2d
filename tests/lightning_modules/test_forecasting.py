"""Forecasters: every combination of their choices, and what each choice promises."""

import itertools

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from data.batches import ForecastingBatch
from lightning_modules import baselines
from lightning_modules.axes.forecasting import ChannelMixing, TokenKind, WindowNorm
from lightning_modules.design import Design, Dims
from lightning_modules.forecaster import ForecastModel, ForecastVariant
from lightning_modules.forecasting import ForecastingModule
from lightning_modules.readouts import Readout, WindowShape

SHAPE = WindowShape(lookback=168, horizon=5, n_channels=3, n_time_features=2)
TINY = Dims(d_model=8, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0)
VARIANTS = [
    ForecastVariant(tokens=tokens, channels=channels, window_norm=norm, readout=readout)
    for tokens, channels, norm, readout in itertools.product(
        TokenKind, ChannelMixing, WindowNorm, Readout
    )
]


def name(variant: ForecastVariant) -> str:
    return "-".join(map(str, vars(variant).values()))


def batch(rows: int = 2, *, seed: int = 0) -> ForecastingBatch:
    generator = torch.Generator().manual_seed(seed)

    def values(length: int, columns: int) -> Tensor:
        return torch.randn(rows, length, columns, dtype=torch.double, generator=generator)

    return ForecastingBatch(
        past=values(168, 3),
        future=values(5, 3),
        past_time=values(168, 2),
        future_time=values(5, 2),
        indices=torch.arange(rows),
    )


def changed(original: ForecastingBatch, **values: Tensor) -> ForecastingBatch:
    return ForecastingBatch(**{**original.tensors, **values})


def module(variant: ForecastVariant = ForecastVariant(), **options: object) -> ForecastingModule:
    torch.manual_seed(0)
    built = ForecastingModule(shape=SHAPE, variant=variant, dims=TINY, **options)  # type: ignore[arg-type]
    return built.double()


@pytest.mark.parametrize("variant", VARIANTS, ids=name)
def test_every_choice_forecasts_and_learns(variant: ForecastVariant) -> None:
    built = module(variant)
    forecast = built.model(batch())
    assert forecast.shape == (2, 5, 3)
    forecast.square().sum().backward()
    for parameter_name, parameter in built.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
    assert any(parameter.grad.abs().sum() > 0 for parameter in built.parameters())


@pytest.mark.parametrize("model", ForecastModel)
def test_every_model_forecasts(model: ForecastModel) -> None:
    built = module(ForecastVariant(model=model)).eval()
    assert built.model(batch()).shape == (2, 5, 3)
    assert any(p.requires_grad for p in built.parameters()) is model.trains


@pytest.mark.parametrize("variant", VARIANTS, ids=name)
def test_nothing_of_the_future_is_seen_but_its_time(variant: ForecastVariant) -> None:
    built, seen = module(variant).eval(), batch()
    other = changed(seen, future=seen.future + 9)
    assert torch.equal(built.model(seen), built.model(other))
    hours = changed(seen, future_time=seen.future_time + 9)
    reads_hours = variant.readout is not Readout.head
    assert torch.equal(built.model(seen), built.model(hours)) is not reads_hours


def test_a_decoder_in_training_sees_the_hours_before_only() -> None:
    built, seen = module(ForecastVariant(readout=Readout.autoregressive)).train(), batch()
    future = seen.future.clone()
    future[:, 3] += 9
    before, after = built.model(seen), built.model(changed(seen, future=future))
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4], after[:, 4])


def test_rolling_out_is_what_training_shows_for_its_own_forecast() -> None:
    built, seen = module(ForecastVariant(readout=Readout.autoregressive)), batch()
    rolled = built.eval().model(seen).detach()
    taught = built.train().model(changed(seen, future=rolled))
    torch.testing.assert_close(rolled, taught)


@pytest.mark.parametrize("norm", WindowNorm)
def test_a_reversible_norm_follows_level_and_scale(norm: WindowNorm) -> None:
    built, seen = module(ForecastVariant(window_norm=norm)).eval(), batch()
    moved = built.model(changed(seen, past=100 + 7 * seen.past))
    follows = torch.allclose(moved, 100 + 7 * built.model(seen), rtol=1e-3)
    assert follows is (norm is WindowNorm.reversible)


@pytest.mark.parametrize("channels", ChannelMixing)
def test_independent_channels_do_not_see_each_other(channels: ChannelMixing) -> None:
    built, seen = module(ForecastVariant(channels=channels)).eval(), batch()
    past = seen.past.clone()
    past[:, :, 2] += torch.linspace(0, 9, 168)
    before, after = built.model(seen), built.model(changed(seen, past=past))
    apart = torch.allclose(before[..., :2], after[..., :2])
    assert apart is (channels is ChannelMixing.independent)


@pytest.mark.parametrize(("lookback", "patches"), [(336, 42), (512, 64), (96, 12)])
def test_patches_are_those_of_patchtst(lookback: int, patches: int) -> None:
    """Nie et al. 2023 call their models by them: PatchTST/42 and /64."""
    tokens = TokenKind.patch(1, lookback, 8, ForecastVariant())
    assert tokens.n_tokens == patches
    assert tokens(torch.randn(2, lookback, 1)).shape == (2, patches, 8)


def test_a_patch_holds_its_own_rows() -> None:
    tokens = TokenKind.patch(1, 24, 8, ForecastVariant())
    rows = torch.zeros(1, 24, 1)
    rows[0, 17] = 1  # in the second and third patch of 0-15, 8-23, 16-31
    moved = (tokens(rows) - tokens(torch.zeros(1, 24, 1)))[0].abs().sum(-1) > 0
    assert moved.tolist() == [False, True, True]


def test_ridge_is_solved_not_trained() -> None:
    built = module(ForecastVariant(model=ForecastModel.ridge))
    train, validation = batch(40), batch(20, seed=1)
    built.model.forecast.solve((train.past, train.future), (validation.past, validation.future))
    by_hand = baselines.fit_ridge(
        train.past,
        train.future,
        validation_past=validation.past,
        validation_future=validation.future,
    )
    torch.testing.assert_close(built.model(validation), by_hand(validation.past))


@pytest.mark.parametrize("size", [1, 3, 10])
def test_errors_do_not_depend_on_batching(size: int) -> None:
    whole = batch(10)
    parts = [
        ForecastingBatch(**{n: tensor[i : i + size] for n, tensor in whole.tensors.items()})
        for i in range(0, 10, size)
    ]
    deviation = torch.tensor([1.0, 2.0, 3.0])
    built = module(deviation=deviation)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = pl.Trainer(accelerator="cpu", enable_checkpointing=False, **quiet)  # type: ignore[arg-type]
    loader = DataLoader(parts, batch_size=None)  # type: ignore[arg-type]
    logged = trainer.test(built, loader, verbose=False)[0]
    error = built.eval().model(whole) - whole.future
    assert logged["test/mse"] == pytest.approx(error.square().mean().item(), rel=1e-5)
    assert logged["test/mae"] == pytest.approx(error.abs().mean().item(), rel=1e-5)
    original = (error * deviation).abs().mean().item()
    assert logged["test/mae_original"] == pytest.approx(original, rel=1e-5)


def test_a_design_axis_changes_the_forecast() -> None:
    designs = [Design(), Design(**{"norm_position": type(Design().norm_position)("post")})]
    first, second = (module(design=design).eval().model(batch()) for design in designs)
    assert not torch.allclose(first, second)

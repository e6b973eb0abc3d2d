"""The forecasting part of a run."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytorch_lightning as pl
import torch

from ablations.config import RunConfig
from ablations.task_runs.base import Facts, Rows, TaskRun
from data.forecasting import ForecastingDataModule
from lightning_modules.forecasting import ForecastingModule
from lightning_modules.readouts import Readout, WindowShape

HOUR = str(timedelta(hours=1))


class ForecastingRun(TaskRun):
    """Windows of a series: squared and absolute errors, scaled and in original units."""

    signatures: ClassVar[Mapping[str, str]] = {
        "loss": "squared error of scaled values",
        "mse": "scaled by the training rows",
        "mae": "scaled by the training rows",
        "mse_original": "units of the series, squared",
        "mae_original": "units of the series",
    }
    data: ForecastingDataModule

    def __init__(self, config: RunConfig, *, cache_dir: Path) -> None:
        super().__init__(config, cache_dir=cache_dir)
        self.data = ForecastingDataModule(config.data, seed=config.seed, cache_dir=cache_dir)
        self.data.setup()
        reasons = {lookback: self.undefined_at(lookback) for lookback in self.data.eval_lookbacks}
        self.undefined = [
            {"split": "test", "length": lookback, "why": why}
            for lookback, why in reasons.items()
            if why
        ]

    def undefined_at(self, lookback: int) -> str:
        """Why the model isn't defined for so many rows of the past; empty where it is."""
        config = self.config
        if why := config.variant.undefined_at(lookback, trained=config.data.lookback):
            return why
        tokens = self._tokens(lookback)
        if tokens is None:
            return ""
        if tokens < 1:
            return f"variant.patch_length {config.variant.patch_length} is longer than {lookback}"
        decodes = config.variant.readout is not Readout.head
        longest = max(tokens, config.data.horizon if decodes else 0)
        why = config.design.position.undefined_at(longest, dims=config.dims)
        return f"{why}, and a window has {longest}" if why else ""

    def _tokens(self, lookback: int) -> int | None:
        """Tokens of the past; None where the model has no tokens."""
        tokens = getattr(self.build(self.config, self.facts).model, "tokens", None)
        return None if tokens is None else tokens.count(lookback)

    def refuse(self) -> None:
        """Refuse rules that need hourly rows, and tokens that a learned table doesn't reach."""
        config, step = self.config, self.data.report["step"]
        if config.variant.model.hourly and step != HOUR:
            raise ValueError(
                f"variant.model {config.variant.model} repeats hours, and the rows of this series "
                f"are {step} apart; choose another model"
            )
        if why := self.undefined_at(config.data.lookback):
            raise ValueError(f"{why}; raise dims.max_length or choose another design.position")

    @property
    def facts(self) -> Facts:
        """Channels, time features and the deviation of each channel."""
        return {
            "n_channels": self.data.n_channels,
            "n_time_features": self.data.n_time_features,
            "deviation": self.data.scale[1].tolist(),
        }

    @staticmethod
    def build(config: RunConfig, facts: Facts) -> ForecastingModule:
        """The untrained module."""
        shape = WindowShape(
            lookback=config.data.lookback,
            horizon=config.data.horizon,
            n_channels=facts["n_channels"],
            n_time_features=facts["n_time_features"],
        )
        return ForecastingModule(
            shape=shape,
            variant=config.variant,
            design=config.design,
            dims=config.dims,
            optim=config.optim,
            max_steps=config.budget.max_steps,
            deviation=torch.tensor(facts["deviation"]),
        )

    def fit_without_training(self, module: Any) -> bool:
        """Solve what has a closed form; a rule needs nothing at all."""
        if any(parameter.requires_grad for parameter in module.parameters()):
            return False
        train, validation = (self.data.windows(name) for name in ("train", "validation"))
        solve = getattr(module.model.forecast, "solve", None)
        if solve is not None:
            solve((train.past, train.future), (validation.past, validation.future))
        return True

    def evaluate(self, trainer: pl.Trainer, module: pl.LightningModule, folder: Path) -> Rows:
        """Errors on the validation and test windows, then on the test windows by look-back.

        A look-back that the model isn't defined for has no rows; see `undefined`.
        """
        validation = trainer.validate(module, self.data.val_dataloader(), verbose=False)[0]
        test = trainer.test(module, self.data.test_dataloader(), verbose=False)[0]
        rows = self.rows("validation", validation) + self.rows("test", test)
        undefined = {part["length"] for part in self.undefined}
        for lookback in self.data.eval_lookbacks:
            if lookback in undefined:
                continue
            values = test  # the trained look-back is that of the split
            if lookback != self.config.data.lookback:
                loader = self.data.test_dataloader(lookback)
                values = trainer.test(module, loader, verbose=False)[0]
            rows += self.rows("test", values, length=lookback)
        return rows

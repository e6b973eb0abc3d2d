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

    def refuse(self) -> None:
        """Refuse rules that need hourly rows, and tokens that a learned table doesn't reach."""
        config, step = self.config, self.data.report["step"]
        if config.variant.model.hourly and step != HOUR:
            raise ValueError(
                f"variant.model {config.variant.model} repeats hours, and the rows of this series "
                f"are {step} apart; choose another model"
            )
        longest = self._longest()
        if why := config.design.position.undefined_at(longest, dims=config.dims):
            raise ValueError(
                f"{why}, and a window has {longest}; raise dims.max_length or choose another "
                "design.position"
            )

    def _longest(self) -> int:
        """Tokens of the longer stack."""
        encoder = self.build(self.config, self.facts).model
        tokens = getattr(getattr(encoder, "tokens", None), "n_tokens", 0)
        decodes = self.config.variant.readout is not Readout.head
        return max(tokens, self.config.data.horizon if decodes else 0)

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
        """Errors on the validation and test windows."""
        validation = trainer.validate(module, self.data.val_dataloader(), verbose=False)[0]
        test = trainer.test(module, self.data.test_dataloader(), verbose=False)[0]
        return self.rows("validation", validation) + self.rows("test", test)

"""Forecasting as a LightningModule, for anybody's Trainer."""

import torch
import torch.nn.functional as F
from torch import Tensor

from data.batches import ForecastingBatch
from lightning_modules.design import Design, Dims
from lightning_modules.forecaster import ForecastVariant
from lightning_modules.optimization import Optim
from lightning_modules.readouts import WindowShape
from lightning_modules.supervised import SupervisedModule


class ForecastingModule(SupervisedModule):
    """A forecaster trained on the squared error of scaled values.

    Logs `mse` and `mae` in scaled units, and `mse_original` and `mae_original` in the units of the
    series, each a mean over windows, rows and channels.

    Args:
        shape: of the windows.
        variant: the choices of the forecaster.
        design: the choices of its Transformer.
        dims: the sizes.
        optim: how it is trained; label smoothing plays no part.
        max_steps: updates of the whole training, which the schedule needs to know.
        deviation: of each channel in original units, `(channels,)`; 1 unless given.

    Raises:
        ValueError: the combination violates a constraint; the message names it.
    """

    deviation: Tensor

    def __init__(
        self,
        *,
        shape: WindowShape,
        variant: ForecastVariant = ForecastVariant(),
        design: Design = Design(),
        dims: Dims = Dims(),
        optim: Optim = Optim(),
        max_steps: int = 1000,
        deviation: Tensor | None = None,
    ) -> None:
        super().__init__(design=design, dims=dims, optim=optim, max_steps=max_steps)
        self.model = variant.model(shape, design=design, dims=dims, variant=variant)
        known = torch.ones(shape.n_channels) if deviation is None else deviation.float()
        self.register_buffer("deviation", known)

    def training_step(self, batch: ForecastingBatch, batch_index: int) -> dict[str, Tensor]:
        """The squared error of a micro-batch, summed over its values."""
        total = F.mse_loss(self.model(batch), batch.future, reduction="sum")
        return self.summed(total, batch.future.numel())

    def validation_step(self, batch: ForecastingBatch, batch_index: int) -> None:
        """Log the errors; `validation/loss` is the squared one."""
        errors = self._errors(batch)
        self.log_means({"validation/loss": errors["mse"]}, n_targets=len(batch))

    def test_step(self, batch: ForecastingBatch, batch_index: int) -> None:
        """Log the errors in scaled and original units."""
        errors = {f"test/{name}": error for name, error in self._errors(batch).items()}
        self.log_means(errors, n_targets=len(batch))

    def predict_step(self, batch: ForecastingBatch, batch_index: int = 0) -> Tensor:
        """The forecast `(batch, horizon, channels)`, scaled."""
        return self.model(batch)

    def _errors(self, batch: ForecastingBatch) -> dict[str, Tensor]:
        error = self.model(batch) - batch.future
        original = error * self.deviation
        return {
            "mse": error.square().mean(),
            "mae": error.abs().mean(),
            "mse_original": original.square().mean(),
            "mae_original": original.abs().mean(),
        }

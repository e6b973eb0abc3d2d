"""What every LightningModule here shares: losses as sums, divided once by all targets."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import pytorch_lightning as pl
import torch
import torch.distributed
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor

from lightning_modules.design import Design, Dims, violated
from lightning_modules.losses import loss_and_hits, projected_cross_entropy
from lightning_modules.optimization import Optim, configure


class SupervisedModule(pl.LightningModule):
    """A module whose `training_step` returns `summed` losses.

    Micro-batches differ in their number of targets, so the mean is taken once, over all targets of
    an update, on all ranks: accumulated gradients are those of the big batch.

    Args:
        design: the choices.
        dims: the sizes.
        optim: how it is trained.
        max_steps: updates of the whole training, which the schedule needs to know.

    Raises:
        ValueError: the combination violates a constraint; the message names it.
    """

    def __init__(self, *, design: Design, dims: Dims, optim: Optim, max_steps: int) -> None:
        super().__init__()
        if problems := violated(design, dims, optim):
            raise ValueError("; ".join(problems))
        self.optim, self.max_steps = optim, max_steps
        self.n_targets: Tensor | int = 0

    def summed(self, total: Tensor, n_targets: int) -> dict[str, Tensor]:
        """The sum for backward as `loss`, and `mean_loss`, for callbacks.

        The mean is that over the micro-batch of all ranks, the same on each.
        """
        loss, targets = over_ranks(torch.stack((total.detach(), torch.full_like(total, n_targets))))
        self.n_targets = self.n_targets + targets
        # Not by `self.log`: on small models it took a tenth of an update.
        return {"loss": total, "mean_loss": loss / targets}

    def log_means(self, values: Mapping[str, Tensor], *, n_targets: int) -> None:
        """Log means over `n_targets`, so that an epoch's is over all targets of all ranks."""
        # Lightning averages whole numbers over ranks to a whole number, and its mean is then wrong.
        self.log_dict(values, batch_size=float(n_targets), sync_dist=True)  # type: ignore[arg-type]

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Turn summed gradients into those of the mean over the update's targets, on all ranks."""
        # Lightning has divided each loss by the accumulation, and averages gradients over ranks.
        factor = self.trainer.accumulate_grad_batches * self.trainer.world_size / self.n_targets
        weights = (weight for group in optimizer.param_groups for weight in group["params"])
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        torch._foreach_mul_(gradients, factor)
        self.n_targets = 0

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """The optimiser with the schedule stepped at every update."""
        return configure(self, self.optim, max_steps=self.max_steps)


def over_ranks(values: Tensor) -> Tensor:
    """The sum of these values over all processes that train together."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(values)
    return values


class TokenModule(SupervisedModule, ABC):
    """A module that predicts tokens: losses in nats per target token, padding not counted."""

    @abstractmethod
    def states_and_targets(self, batch: object) -> tuple[Tensor, Tensor]:
        """Decoder states `(targets, width)` and token ids `(targets,)` at the positions that count.

        Subclasses say which.
        """

    @property
    def output_weight(self) -> Tensor:
        """The rows that states are compared with, `(vocabulary, width)`."""
        return self.model.output_weight  # type: ignore[union-attr, return-value]

    def training_step(self, batch: object, batch_index: int) -> dict[str, Tensor]:
        """The smoothed loss of a micro-batch, summed over its targets."""
        states, targets = self.states_and_targets(batch)
        total = projected_cross_entropy(
            states, self.output_weight, targets, label_smoothing=self.optim.label_smoothing
        )
        return self.summed(total, len(targets))

    def validation_step(self, batch: object, batch_index: int) -> None:
        """Log loss and accuracy under teacher forcing."""
        self._evaluate(batch, "validation")

    def test_step(self, batch: object, batch_index: int) -> None:
        """Log loss and accuracy under teacher forcing."""
        self._evaluate(batch, "test")

    @torch.no_grad()
    def _evaluate(self, batch: object, split: str) -> None:
        states, targets = self.states_and_targets(batch)
        loss, hits = loss_and_hits(states, self.output_weight, targets)
        values = {f"{split}/loss": loss / len(targets), f"{split}/accuracy": hits / len(targets)}
        self.log_means(values, n_targets=len(targets))

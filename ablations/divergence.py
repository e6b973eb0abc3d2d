"""Whether a training has diverged, found without holding it up."""

from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor


class Divergence(Callback):
    """Finds the first update whose loss is not finite or over a bound, and ends training after it.

    Each loss is looked at when the next micro-batch is under way: to read the latest one would hold
    up a GPU until it has nothing left to do.

    Args:
        bound: the highest training loss that is no divergence, in the units of the loss.

    Attributes:
        step: updates done with that one; None where there is none.
    """

    def __init__(self, bound: float) -> None:
        self.bound = bound
        self.step: int | None = None
        self._latest: tuple[int, Tensor | float] = (0, 0.0)
        self._copied: torch.cuda.Event | None = None

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any
    ) -> None:
        """Look at the loss of the micro-batch before this one."""
        self._look()
        loss = outputs["mean_loss"]
        # A copy that is asked for later would wait for all that the GPU was told to do meanwhile.
        self._latest = trainer.global_step, loss.to("cpu", non_blocking=True)
        self._copied = torch.cuda.current_stream().record_event() if loss.is_cuda else None
        trainer.should_stop |= self.step is not None

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look at the last one."""
        self._look()

    def _look(self) -> None:
        step, loss = self._read()
        if self.step is None and not loss <= self.bound:
            self.step = step

    def _read(self) -> tuple[int, float]:
        if self._copied is not None:
            self._copied.synchronize()
        step, loss = self._latest
        return step, float(loss)

    def state_dict(self) -> dict[str, Any]:
        """The loss that is still to be looked at."""
        return {"latest": self._read()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Look at it after the next micro-batch."""
        self._latest, self._copied = state_dict["latest"], None

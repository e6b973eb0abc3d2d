"""What watches a run while it trains: weight averaging, the learning curve, pruning."""

import csv
import io
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import WeightAveraging
from torch import Tensor
from torch.optim.swa_utils import get_swa_multi_avg_fn

from ablations.devices import total
from ablations.files import write_atomically
from ablations.stopping import PrunedError
from data.row_batching import process_share

CURVE_COLUMNS = ("step", "train_loss", "lr", "validation_loss", "seconds")
CURVE_ROWS = 200
SHOW_SECONDS = 5.0  # between two looks that others can take at the curve of a run in training


class AverageLast(WeightAveraging):
    """The equal-weight average of the weights after each of the last updates.

    The average is what validation sees once it has begun, and what the module holds after training.
    Before it has begun validation sees the weights as they are. It lies on the training's device.

    Args:
        first_step: updates done before the first one whose weights count.
    """

    def __init__(self, first_step: int) -> None:
        super().__init__(multi_avg_fn=get_swa_multi_avg_fn())
        self.first_step = first_step

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Make the average where the weights are going to be: Lightning moves them later."""
        pl_module.to(trainer.strategy.root_device)
        super().setup(trainer, pl_module, stage)

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """Whether the weights after this update (counted from 0) count."""
        return step_idx is not None and step_idx >= self.first_step

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Put the average into the module, if there is one."""
        if self._latest_update_step > 0:
            super().on_train_end(trainer, pl_module)

    def _swap_models(self, pl_module: LightningModule) -> None:
        # Lightning's average starts as a copy of the initial weights: not what is to be validated.
        if self._latest_update_step > 0:
            super()._swap_models(pl_module)


class LearningCurve(Callback):
    """Keeps the learning curve as CSV and counts what was learned from.

    A row is the mean training loss since the last row (per target), the learning rate,
    the validation loss where one was measured at this step, and the seconds of training so far
    without validation. The file is always whole: it is rewritten every few seconds, at each
    validation and at the end.
    With several processes the first one writes it.

    Args:
        path: the CSV file.
        max_steps: updates of the run; the curve gets 200 rows at most, and those of validations.

    Attributes:
        report: gets a row's `train/loss` and `lr`, and all that a validation measured, with the
            step; after a restart once more from the beginning.
        n_targets: targets that this process learned from so far; after training,
            those of all processes.
        seconds: seconds of training up to the last row, without validation.
        validation_seconds: seconds of validation so far.
    """

    def __init__(self, path: Path, *, max_steps: int) -> None:
        self.path = path
        self.every = math.ceil(max_steps / CURVE_ROWS)
        self.rows: list[dict[str, Any]] = []
        self.report: Callable[[dict[str, float], int], None] = lambda metrics, step: None
        self.reported: list[tuple[dict[str, float], int]] = []
        self.losses: list[Tensor] = []  # left where they are: reading one would hold up a GPU
        self.lr = 0.0
        self.n_targets = 0
        self.validation_seconds = 0.0
        self.seconds = 0.0
        self._started = 0.0
        self._validation_started = 0.0
        self._saved = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the clock, or go on where it stood."""
        self._started = time.perf_counter() - self.seconds - self.validation_seconds
        self.losses = [loss.to(pl_module.device) for loss in self.losses]
        for metrics, step in self.reported:
            self.report(metrics, step)

    def on_train_batch_start(self, trainer: Trainer, *_: Any) -> None:
        """Note the rate of the coming update: afterwards the schedule has moved on."""
        self.lr = trainer.optimizers[0].param_groups[0]["lr"]

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count the targets, and add a row when one is due."""
        self.n_targets += batch.n_targets
        self.losses.append(outputs["mean_loss"])
        step = trainer.global_step
        if step % self.every == 0 and step > self._last_step():
            self._add_row(trainer)
            if time.monotonic() - self._saved > SHOW_SECONDS:
                self._save(trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop the clock of training."""
        self._validation_started = time.perf_counter()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Note the loss at this step and save the curve so far."""
        self.validation_seconds += time.perf_counter() - self._validation_started
        if trainer.global_step > self._last_step():
            self._add_row(trainer)
        measured = {
            name: float(value)
            for name, value in trainer.callback_metrics.items()
            if name.startswith("validation/")
        }
        self.rows[-1]["validation_loss"] = measured["validation/loss"]
        self._report(measured, trainer.global_step)
        self._save(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Close the curve with the last update."""
        self._read_clock()
        if trainer.global_step > self._last_step():
            self._add_row(trainer)
        self.n_targets = total(self.n_targets)
        self._save(trainer)

    def state_dict(self) -> dict[str, Any]:
        """The curve so far, for a checkpoint."""
        self._read_clock()
        return {
            "rows": [dict(row) for row in self.rows],
            "reported": list(self.reported),
            "losses": list(self.losses),
            "n_targets": total(self.n_targets),
            "seconds": self.seconds,
            "validation_seconds": self.validation_seconds,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with the curve of a checkpoint."""
        vars(self).update(state_dict)
        if process_share()[0] > 0:
            self.n_targets = 0  # the first process has them all

    def _save(self, trainer: Trainer) -> None:
        if not trainer.is_global_zero:
            return
        self._saved = time.monotonic()
        text = io.StringIO()
        writer = csv.DictWriter(text, CURVE_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        write_atomically(self.path, text.getvalue())

    def _last_step(self) -> int:
        return self.rows[-1]["step"] if self.rows else 0

    def _read_clock(self) -> None:
        self.seconds = time.perf_counter() - self._started - self.validation_seconds

    def _report(self, metrics: dict[str, float], step: int) -> None:
        self.reported.append((metrics, step))
        self.report(metrics, step)

    def _add_row(self, trainer: Trainer) -> None:
        self._read_clock()
        mean = float(torch.stack(self.losses).mean()) if self.losses else math.nan
        self.losses.clear()
        self.rows.append(
            {
                "step": trainer.global_step,
                "train_loss": f"{mean:.6g}",
                "lr": f"{self.lr:.6g}",
                "validation_loss": "",
                "seconds": f"{self.seconds:.3f}",
            }
        )
        values = {"train/loss": float(f"{mean:.6g}"), "lr": float(f"{self.lr:.6g}")}
        self._report(values, trainer.global_step)


class Pruning(Callback):
    """Ends a trial of a search that does worse than earlier ones.

    Args:
        curve: keeps its validation losses; comes before this among the callbacks.
        pruning: what is known of earlier trials, for `ablations.tuning.is_hopeless`.
    """

    def __init__(self, curve: LearningCurve, pruning: Mapping[str, Any]) -> None:
        self.curve, self.pruning = curve, pruning

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raise `PrunedError` when it is hopeless and not about to end anyway."""
        from ablations.tuning import as_loss, is_hopeless

        losses = [row["validation_loss"] for row in self.curve.rows if row["validation_loss"] != ""]
        if trainer.global_step < trainer.max_steps and is_hopeless(
            self.pruning, [as_loss(loss) for loss in losses]
        ):
            raise PrunedError(f"at step {trainer.global_step}")


class Predictions(Callback):
    """Collects what a module predicts, by the position of each row in its split."""

    def __init__(self) -> None:
        self.by_index: dict[int, list[int]] = {}

    @staticmethod
    def of(trainer: Trainer) -> "Predictions":
        """The one that this Trainer carries."""
        return next(c for c in trainer.callbacks if isinstance(c, Predictions))  # type: ignore[attr-defined]

    def collect(self, module: LightningModule, loader: Any, *, count: int) -> list[list[int]]:
        """The predictions for a whole split, `count` rows, in its own order."""
        self.by_index.clear()
        self.trainer.predict(module, loader, return_predictions=False)
        assert sorted(self.by_index) == list(range(count)), "a row was not predicted"
        return [self.by_index[index] for index in range(count)]

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Remember whose it is."""
        self.trainer = trainer

    def on_predict_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        """Keep what was predicted for one batch."""
        self.by_index.update(zip(batch.indices.tolist(), outputs, strict=True))

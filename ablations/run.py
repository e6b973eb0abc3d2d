"""One cell, from its config to `result.json`."""

import json
import logging
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
from pytorch_lightning.utilities.memory import garbage_collection_cuda, is_oom_error

from ablations.callbacks import AverageLast, LearningCurve, Predictions, Pruning
from ablations.checkpoints import CheckpointFile, Checkpoints, StoppedError, checkpoint_seconds
from ablations.config import RunConfig, check, nested, run_id
from ablations.cost import CountFlops, PeakMemory
from ablations.devices import Devices, check_devices, check_shares
from ablations.divergence import Divergence
from ablations.files import create_once, write_atomically
from ablations.heads import head_rows
from ablations.inspection import inspect_model
from ablations.loading import TrainingLoader
from ablations.quiet import quieten
from ablations.record import code_version, record
from ablations.stopping import PrunedError, Stop
from ablations.task_runs.registry import make_task_run
from ablations.team import run_together
from ablations.weights import save_weights

if TYPE_CHECKING:
    from ablations.tracking import TrackedRun, Tracker

log = logging.getLogger(__name__)


def run_cell(
    config: RunConfig,
    *,
    runs_dir: Path,
    cache_dir: Path,
    tracker: "Tracker | None" = None,
    changes: Mapping[str, Any] | None = None,
    progress: bool = False,
    stop: Stop | None = None,
    kept: Callable[[], None] = lambda: None,
    devices: int = 1,
    pruning: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Train and evaluate one cell, unless its result is there already.

    The run's folder gets `config.json`, `learning_curve.csv`, `weights.pt` and `hypotheses/`, then
    `result.json`. Several processes may run the same cell: the first result stays. Meanwhile it
    holds `checkpoint.pt`: a run that was ended in any way goes on from there, and on a CPU comes to
    the same weights, bit by bit. Where the memory is too small for a batch, batches are cut in two,
    and twice as many make an update. Several devices share out the rows of a batch: the same
    updates but for rounding, and for dropout, which each draws for its own rows.

    Args:
        config: the cell.
        runs_dir: where the run's folder, named by its id, is kept.
        cache_dir: where vocabularies are kept.
        tracker: logs the run elsewhere, too.
        changes: what differs from the study's baseline, for the tracker.
        progress: show a progress bar.
        stop: once it is asked, a run in training ends with a checkpoint; one in evaluation goes on.
        kept: called after each checkpoint.
        devices: how many train it, each with a process: GPUs where there are any.
        pruning: what a trial of a search must know of earlier ones.

    Returns:
        The content of `result.json`.

    Raises:
        ValueError: an illegal combination, data that cannot be read, or batches that so many
            devices cannot share.
        KeyboardInterrupt: Ctrl-C, or `stop` was asked; nothing is recorded.
        PrunedError: a trial has ended itself early; `pruned.json` says when.
    """
    check(config)
    identity = run_id(config, config.task.value.fingerprint(config.data))
    result_file = runs_dir / identity / "result.json"
    count = devices if config.updates else 1
    file = CheckpointFile(
        result_file.with_name("checkpoint.pt"),
        owner={"run": identity, "code": code_version(), "devices": count},
    )
    there = result_file.exists()
    if not there:
        check_devices(config, count=count)
        if count > 1:
            check_shares(make_task_run(config, cache_dir=cache_dir).data, count=count)
        seconds = checkpoint_seconds()
        cell = _Cell(config, file, cache_dir, tracker, changes, progress, seconds, pruning)
        _run_in_memory(cell, count=count, stop=stop or Stop(), kept=kept)
    file.remove_checkpoint()
    result = json.loads(result_file.read_text(encoding="utf-8"))
    if there and tracker is not None:
        tracker.found(config, result, changes=changes)
    return result


class _TooLargeError(Exception):
    """The memory is too small; the argument says into how many parts batches are to be cut."""


# What a tracker is told of a run that ended without a result.
OUTCOMES: dict[type[BaseException], str] = {
    KeyboardInterrupt: "interrupted",
    _TooLargeError: "interrupted",
    PrunedError: "pruned",
}


def _run_in_memory(cell: "_Cell", *, count: int, stop: Stop, kept: Callable[[], None]) -> None:
    """Run with whole batches, or with as many parts of each as the memory asks for."""
    parts = 1
    while True:
        attempt = partial(cell.attempt, parts=parts)
        try:
            if count == 1:
                return attempt(devices=Devices(), stop=stop, kept=kept)
            return run_together(attempt, count=count, stop=stop, kept=kept)
        except _TooLargeError as error:
            [parts] = error.args
        log.warning("%s: out of memory, goes on with batches in %d parts", cell.identity, parts)
        garbage_collection_cuda()


@dataclass(frozen=True)
class _Cell:
    """What a process must be told of a cell to run it."""

    config: RunConfig
    file: CheckpointFile
    cache_dir: Path
    tracker: "Tracker | None"
    changes: Mapping[str, Any] | None
    progress: bool
    seconds: float
    pruning: Mapping[str, Any] | None

    @property
    def identity(self) -> str:
        return self.file.path.parent.name

    def attempt(
        self, *, devices: Devices, stop: Stop, kept: Callable[[], None], parts: int
    ) -> None:
        """Run it in this process, and record the result unless another process does."""
        checkpoints = Checkpoints(
            self.file, seconds=self.seconds, stop=stop, kept=kept, parts=parts
        )
        with warnings.catch_warnings():
            quieten()
            run = _Run(self, checkpoints, devices)
            self._tracked(run)

    def _tracked(self, run: "_Run") -> None:
        """Run to the result on the disk; only then is the tracker told of it."""
        tracked = None
        if self.tracker is not None and run.devices.is_first:
            tracked = self.tracker.start(self.config, self.identity, changes=self.changes)
        try:
            result = self._recorded(run, tracked)
        except BaseException as error:
            if tracked is not None:
                tracked.abandon(OUTCOMES.get(type(error), "failed"))
            raise
        if tracked is not None and result is not None:
            tracked.finish(result, run.folder, partial(inspect_model, run.module, run.part))

    def _recorded(self, run: "_Run", tracked: "TrackedRun | None") -> dict[str, Any] | None:
        try:
            result = run.finish(tracked)
        except (SystemExit, StoppedError) as error:  # SystemExit is what Lightning makes of Ctrl-C
            raise KeyboardInterrupt from error
        except PrunedError as error:
            if run.devices.is_first:
                create_once(run.folder / "pruned.json", json.dumps({"pruned": str(error)}))
            raise
        except RuntimeError as error:
            if not is_oom_error(error) or not run.can_halve():
                raise
            raise _TooLargeError(2 * run.parts) from error
        if result is not None:
            create_once(run.folder / "result.json", json.dumps(result, indent=1))
        return result


class _Run:
    """The parts of one run, made in the order that the seed needs."""

    def __init__(self, cell: _Cell, checkpoints: Checkpoints, devices: Devices) -> None:
        self.memory = PeakMemory()
        self.config, self.identity = cell.config, cell.identity
        self.progress = cell.progress and devices.is_first
        self.checkpoints, self.devices = checkpoints, devices
        self.parts = checkpoints.parts
        self.folder = cell.file.path.parent
        if devices.is_first:
            write_atomically(self.folder / "config.json", json.dumps(nested(self.config), indent=1))
        self.part = make_task_run(self.config, cache_dir=cell.cache_dir)
        pl.seed_everything(self.config.seed, verbose=False)
        self.module = self.part.build(self.config, self.part.facts)
        devices.diversify(self.config.seed)
        self.curve = LearningCurve(
            self.folder / "learning_curve.csv", max_steps=self.config.budget.max_steps
        )
        self.divergence = Divergence(self.config.budget.divergence_loss)
        self.early = [Pruning(self.curve, cell.pruning)] if cell.pruning else []
        self.flops = CountFlops()
        self.metrics: list[dict[str, Any]] = []
        self.trained = False

    def can_halve(self) -> bool:
        """Whether half a batch takes less memory and twice as many make the same update."""
        loader = TrainingLoader(self.part.data.train_dataloader())
        # Another process may have one row less of a batch.
        rows = loader.smallest_batch() - (self.devices.count > 1)
        return not self.trained and not self.config.design.mixing_level and rows >= 2 * self.parts

    def finish(self, tracked: "TrackedRun | None") -> dict[str, Any] | None:
        """Train; evaluate unless diverged, and return the record, in the first process only."""
        steps = 0
        if tracked is not None:
            self.curve.report = tracked.log
        if not self.part.fit_without_training(self.module):
            with self.devices.together():
                steps = self._train(self._trainer())
        self.trained = True
        if not self.devices.is_first:
            return None
        evaluation_started = time.perf_counter()
        if self.divergence.step is None:
            save_weights(
                self.folder / "weights.pt",
                self.module,
                config=self.config,
                facts=self.part.facts,
                tokenizer_hash=self.part.tokenizer_hash,
            )
            self._evaluate()
        evaluated = time.perf_counter() - evaluation_started
        return record(self, steps=steps, evaluated=evaluated + self.curve.validation_seconds)

    def _train(self, trainer: pl.Trainer) -> int:
        """Train to the end, from the checkpoint where there is one, and return the updates."""
        data = self.part.data
        trainer.fit(
            self.module,
            TrainingLoader(data.train_dataloader(), parts=self.parts),
            data.val_dataloader(),
            ckpt_path=self.checkpoints.path_to_restore,
        )
        return trainer.global_step

    def _trainer(self) -> pl.Trainer:
        optim, budget = self.config.optim, self.config.budget
        accumulate = optim.accumulate * self.parts
        callbacks: list[pl.Callback] = [self.divergence, self.curve, *self.early, self.checkpoints]
        if optim.average_last > 0:
            callbacks.append(AverageLast(round(budget.max_steps * (1 - optim.average_last))))
        return pl.Trainer(
            **self.devices.trainer_options(optim.precision, plugins=[self.checkpoints.file]),
            max_steps=budget.max_steps,
            gradient_clip_val=optim.clip_norm or None,
            accumulate_grad_batches=accumulate,
            # Lightning counts micro-batches here, over epochs.
            val_check_interval=budget.validate_every * accumulate,
            check_val_every_n_epoch=None,
            logger=False,
            callbacks=callbacks,
            enable_progress_bar=self.progress,
        )

    def _evaluate(self) -> None:
        """All that the task measures, with the weights as they are."""
        options = Devices().trainer_options(self.config.optim.precision)
        trainer = pl.Trainer(
            **options,
            logger=False,
            callbacks=[Predictions(), self.flops],
            enable_progress_bar=False,
        )
        self.metrics += self.part.evaluate(trainer, self.module, self.folder)
        if self.config.budget.measure_heads:
            self.metrics += head_rows(self.part, self.config, self.module)

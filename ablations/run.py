"""One cell, from its config to `result.json`."""

import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities.memory import garbage_collection_cuda, is_oom_error

from ablations.callbacks import AverageLast, Divergence, LearningCurve, Predictions
from ablations.checkpoints import CheckpointFile, Checkpoints, StoppedError
from ablations.config import RunConfig, check, nested, run_id
from ablations.cost import CountFlops, PeakMemory
from ablations.files import create_once, write_atomically
from ablations.ledger import SCHEMA
from ablations.loading import TrainingLoader
from ablations.record import circumstances, code_version, now
from ablations.stopping import Stop
from ablations.task_runs.registry import make_task_run
from ablations.weights import save_weights
from lightning_modules.axis import Axis
from lightning_modules.optimization import Precision

if TYPE_CHECKING:
    from ablations.tracking import Tracker

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
) -> dict[str, Any]:
    """Train and evaluate one cell, unless its result is there already.

    The run's folder gets `config.json`, `learning_curve.csv`, `weights.pt` and `hypotheses/`, then
    `result.json`. Several processes may run the same cell: the first result stays. Meanwhile it
    holds `checkpoint.pt`: a run that was ended in any way goes on from there, and on a CPU comes to
    the same weights, bit by bit. Where the memory is too small for a batch, batches are cut in two,
    and twice as many make an update.

    Args:
        config: the cell.
        runs_dir: where the run's folder, named by its id, is kept.
        cache_dir: where vocabularies are kept.
        tracker: logs the run elsewhere, too.
        changes: what differs from the study's baseline, for the tracker.
        progress: show a progress bar.
        stop: once it is asked, a run in training ends with a checkpoint; one in evaluation goes on.
        kept: called after each checkpoint.

    Returns:
        The content of `result.json`.

    Raises:
        ValueError: an illegal combination, or data that cannot be read.
        KeyboardInterrupt: Ctrl-C, or `stop` was asked; nothing is recorded.
    """
    check(config)
    identity = run_id(config, config.task.value.fingerprint(config.data))
    result_file = runs_dir / identity / "result.json"
    file = CheckpointFile(
        result_file.with_name("checkpoint.pt"), owner={"run": identity, "code": code_version()}
    )
    if not result_file.exists():
        _check_hardware(config)
        checkpoints = partial(
            Checkpoints, file, seconds=checkpoint_seconds(), stop=stop or Stop(), kept=kept
        )
        make = partial(_Run, config, identity, cache_dir, checkpoints, progress=progress)
        with warnings.catch_warnings():
            quieten()
            result = _run_in_memory(
                make, lambda: tracker.start(config, identity, changes=changes) if tracker else None
            )
        create_once(result_file, json.dumps(result, indent=1))
    file.remove_checkpoint()
    return json.loads(result_file.read_text(encoding="utf-8"))


def checkpoint_seconds() -> float:
    """Seconds between two checkpoints: `ABLATIONS_CHECKPOINT_SECONDS`, 300 unless set.

    Raises:
        ValueError: it is set to something else than a number of 0 or more.
    """
    text = os.environ.get("ABLATIONS_CHECKPOINT_SECONDS", "300")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise ValueError(
            f"ABLATIONS_CHECKPOINT_SECONDS is {text!r}; it must be a number of seconds, 0 or more"
        )
    return seconds


def quieten() -> None:
    """Leave out of the terminal what Lightning says to those who set up a Trainer by hand."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module=r"pytorch_lightning|lightning_fabric")
    warnings.filterwarnings("ignore", message=".*does not have many workers")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")


def _run_in_memory(make: Callable[..., "_Run"], start_logger: Callable[[], Any]) -> dict[str, Any]:
    """Run with whole batches, or with as many parts of each as the memory asks for."""
    parts = 1
    while True:
        run = make(parts=parts)
        try:
            return _tracked_run(run, start_logger())
        except RuntimeError as error:
            if not is_oom_error(error) or not run.can_halve():
                raise
            parts = 2 * run.parts
        log.warning("%s: out of memory, goes on with batches in %d parts", run.identity, parts)
        del run
        garbage_collection_cuda()


def _tracked_run(run: "_Run", logger: Any) -> dict[str, Any]:
    result = None
    try:
        result = run.finish(logger)
    except (SystemExit, StoppedError) as error:  # SystemExit is what Lightning makes of Ctrl-C
        raise KeyboardInterrupt from error
    finally:
        if logger is not None:
            logger.finish(result)
    return result


def _check_hardware(config: RunConfig) -> None:
    if config.optim.precision is Precision.fp16 and not torch.cuda.is_available():
        raise ValueError("optim.precision fp16 needs a GPU; choose fp32 or bf16")


class _Run:
    """The parts of one run, made in the order that the seed needs."""

    def __init__(
        self,
        config: RunConfig,
        identity: str,
        cache_dir: Path,
        checkpoints: Callable[..., Checkpoints],
        *,
        progress: bool,
        parts: int,
    ) -> None:
        self.memory = PeakMemory()
        self.config, self.identity = config, identity
        self.progress = progress
        self.checkpoints = checkpoints(parts=parts)
        self.parts = self.checkpoints.parts
        self.folder = self.checkpoints.file.path.parent
        write_atomically(self.folder / "config.json", json.dumps(nested(config), indent=1))
        self.part = make_task_run(config, cache_dir=cache_dir)
        pl.seed_everything(config.seed, verbose=False)
        self.module = self.part.build(config, self.part.facts)
        self.curve = LearningCurve(
            self.folder / "learning_curve.csv", max_steps=config.budget.max_steps
        )
        self.divergence = Divergence(config.budget.divergence_loss)
        self.flops = CountFlops()
        self.metrics: list[dict[str, Any]] = []
        self.trained = False

    def can_halve(self) -> bool:
        """Whether half a batch takes less memory and twice as many make the same update."""
        loader = TrainingLoader(self.part.data.train_dataloader())
        levels: list[Axis] = list(vars(self.config.design).values())
        mixed = any("batch_independence" in level.value.breaks for level in levels)
        return not self.trained and not mixed and loader.smallest_batch() >= 2 * self.parts

    def finish(self, logger: Logger | None) -> dict[str, Any]:
        """Train, evaluate unless diverged, and return the record."""
        steps = 0
        if not self.part.fit_without_training(self.module):
            steps = self._train(self._trainer(logger))
        self.trained = True
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
        return self._record(steps, evaluated + self.curve.validation_seconds)

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

    def _trainer(self, logger: Logger | None) -> pl.Trainer:
        optim, budget = self.config.optim, self.config.budget
        accumulate = optim.accumulate * self.parts
        callbacks: list[pl.Callback] = [self.divergence, self.curve, self.checkpoints]
        if optim.average_last > 0:
            callbacks.append(AverageLast(round(budget.max_steps * (1 - optim.average_last))))
        return pl.Trainer(
            **self._common(),
            max_steps=budget.max_steps,
            gradient_clip_val=optim.clip_norm or None,
            accumulate_grad_batches=accumulate,
            # Lightning counts micro-batches here, over epochs.
            val_check_interval=budget.validate_every * accumulate,
            check_val_every_n_epoch=None,
            log_every_n_steps=self.curve.every,
            logger=logger if logger is not None else False,
            callbacks=callbacks,
            plugins=[self.checkpoints.file],
            enable_progress_bar=self.progress,
        )

    def _common(self) -> dict[str, Any]:
        return {
            "accelerator": "auto",
            "devices": 1,
            "precision": self.config.optim.precision(),
            "num_sanity_val_steps": 0,
            "use_distributed_sampler": False,
            "enable_checkpointing": False,
            "enable_model_summary": False,
        }

    def _evaluate(self) -> None:
        """All that the task measures, with the weights as they are."""
        trainer = pl.Trainer(
            **self._common(),
            logger=False,
            callbacks=[Predictions(), self.flops],
            enable_progress_bar=False,
        )
        self.metrics += self.part.evaluate(trainer, self.module, self.folder)

    def _record(self, steps: int, evaluated: float) -> dict[str, Any]:
        n_targets, trained = int(self.curve.n_targets), self.curve.seconds
        return {
            "schema": SCHEMA,
            "id": self.identity,
            "status": "finished" if self.divergence.step is None else "diverged",
            "diverged_at_step": self.divergence.step,
            "config": nested(self.config),
            "data_fingerprint": self.config.task.value.fingerprint(self.config.data),
            "tokenizer_hash": self.part.tokenizer_hash,
            "data_report": self.part.data.report,
            "metrics": self.metrics,
            "undefined": list(self.part.undefined),
            "parameters": sum(p.numel() for p in self.module.parameters() if p.requires_grad),
            "flops_per_target": self.flops.per_target,
            "peak_memory_bytes": self.memory.bytes(),
            "steps": steps,
            "target_tokens": n_targets,
            "seconds": {
                "train": trained,
                "evaluate": evaluated,
                "total": self.checkpoints.seconds_so_far(),
            },
            "tokens_per_second": n_targets / trained if trained else 0.0,
            "resumed": self.checkpoints.resumed,
            "batch_parts": self.parts,
            **circumstances(self.config),
            "started": self.checkpoints.started,
            "ended": now(),
        }

"""One cell, from its config to `result.json`."""

import datetime
import json
import logging
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import Logger

from ablations.callbacks import AverageLast, Divergence, LearningCurve, Predictions
from ablations.config import RunConfig, check, nested, run_id
from ablations.files import create_once, write_atomically
from ablations.ledger import SCHEMA
from ablations.record import circumstances
from ablations.task_runs.registry import make_task_run
from ablations.weights import save_weights
from lightning_modules.optimization import Precision

if TYPE_CHECKING:
    from ablations.tracking import Tracker


def run_cell(
    config: RunConfig,
    *,
    runs_dir: Path,
    cache_dir: Path,
    tracker: "Tracker | None" = None,
    changes: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Train and evaluate one cell, unless its result is there already.

    The run's folder gets `config.json`, `learning_curve.csv`, `weights.pt` and `hypotheses/`, then
    `result.json`. Several processes may run the same cell: the first result stays.

    Args:
        config: the cell.
        runs_dir: where the run's folder, named by its id, is kept.
        cache_dir: where vocabularies are kept.
        tracker: logs the run elsewhere, too.
        changes: what differs from the study's baseline, for the tracker.
        progress: show a progress bar.

    Returns:
        The content of `result.json`.

    Raises:
        ValueError: an illegal combination, or data that cannot be read.
        KeyboardInterrupt: Ctrl-C; nothing is recorded.
    """
    check(config)
    identity = run_id(config, config.task.value.fingerprint(config.data))
    result_file = runs_dir / identity / "result.json"
    if not result_file.exists():
        _check_hardware(config)
        with warnings.catch_warnings():
            quieten()
            result = _tracked_run(
                _Run(config, identity, runs_dir / identity, cache_dir, progress=progress),
                tracker.start(config, identity, changes=changes) if tracker else None,
            )
        create_once(result_file, json.dumps(result, indent=1))
    return json.loads(result_file.read_text(encoding="utf-8"))


def quieten() -> None:
    """Leave out of the terminal what Lightning says to those who set up a Trainer by hand."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module=r"pytorch_lightning|lightning_fabric")
    warnings.filterwarnings("ignore", message=".*does not have many workers")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")


def _tracked_run(run: "_Run", logger: Any) -> dict[str, Any]:
    result = None
    try:
        result = run.finish(logger)
    except SystemExit as error:  # what Lightning makes of Ctrl-C
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
        self, config: RunConfig, identity: str, folder: Path, cache_dir: Path, *, progress: bool
    ) -> None:
        self.config, self.identity, self.folder = config, identity, folder
        self.progress = progress
        self.started, self.clock = _now(), time.perf_counter()
        write_atomically(folder / "config.json", json.dumps(nested(config), indent=1))
        self.part = make_task_run(config, cache_dir=cache_dir)
        pl.seed_everything(config.seed, verbose=False)
        self.module = self.part.build(config, self.part.facts)
        self.curve = LearningCurve(folder / "learning_curve.csv", max_steps=config.budget.max_steps)
        self.divergence = Divergence(config.budget.divergence_loss)
        self.metrics: list[dict[str, Any]] = []

    def finish(self, logger: Logger | None) -> dict[str, Any]:
        """Train, evaluate unless diverged, and return the record."""
        steps = 0
        if not self.part.fit_without_training(self.module):
            trainer = self._trainer(logger)
            trainer.fit(self.module, self.part.data)
            steps = trainer.global_step
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

    def _trainer(self, logger: Logger | None) -> pl.Trainer:
        optim, budget = self.config.optim, self.config.budget
        callbacks: list[pl.Callback] = [self.divergence, self.curve]
        if optim.average_last > 0:
            callbacks.append(AverageLast(round(budget.max_steps * (1 - optim.average_last))))
        return pl.Trainer(
            **self._common(),
            max_steps=budget.max_steps,
            gradient_clip_val=optim.clip_norm or None,
            accumulate_grad_batches=optim.accumulate,
            # Lightning counts micro-batches here, over epochs.
            val_check_interval=budget.validate_every * optim.accumulate,
            check_val_every_n_epoch=None,
            log_every_n_steps=self.curve.every,
            logger=logger if logger is not None else False,
            callbacks=callbacks,
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
            **self._common(), logger=False, callbacks=[Predictions()], enable_progress_bar=False
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
            "steps": steps,
            "target_tokens": n_targets,
            "seconds": {
                "train": trained,
                "evaluate": evaluated,
                "total": time.perf_counter() - self.clock,
            },
            "tokens_per_second": n_targets / trained if trained else 0.0,
            **circumstances(self.config),
            "started": self.started,
            "ended": _now(),
        }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")

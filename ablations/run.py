"""One cell, from its config to result.json."""

import datetime
import json
import logging
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import TQDMProgressBar
from pytorch_lightning.loggers import Logger

from ablations.callbacks import AverageLast, Divergence, Hypotheses, LearningCurve
from ablations.config import RunConfig, check, flatten, run_id
from ablations.files import create_once, write_atomically
from ablations.record import circumstances
from data.text_scores import score
from data.translation import TranslationDataModule, fingerprint
from lightning_modules.translation import TranslationModule

SCHEMA = 1
LOSS_SIGNATURE = "nats per target token"
Tracker = Callable[[RunConfig, str], Logger | None]


def nested(config: RunConfig) -> dict[str, Any]:
    """The config as nested plain values, as records and trackers hold it."""
    tree: dict[str, Any] = {}
    for path, value in flatten(config).items():
        section, _, name = path.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[name] = value
    return tree


def run_cell(
    config: RunConfig,
    *,
    runs_dir: Path,
    cache_dir: Path,
    tracker: Tracker | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Train and evaluate one cell, unless its result is there already.

    Args:
        config: the cell.
        runs_dir: where the run's folder, named by its id, is kept.
        cache_dir: where vocabularies are kept.
        tracker: gives the logger of this run, from the config and its id.
        progress: show a progress bar.

    Returns:
        The content of `result.json`.

    Raises:
        ValueError: an illegal combination, or data that can't be read.
    """
    check(config)
    identity = run_id(config, fingerprint(config.data))
    folder = runs_dir / identity
    result_file = folder / "result.json"
    if not result_file.exists():
        run = _Run(config, identity, folder, cache_dir, progress=progress)
        result = run.finish(tracker(config, identity) if tracker else None)
        create_once(result_file, json.dumps(result, indent=1))
    return json.loads(result_file.read_text(encoding="utf-8"))


class _Run:
    """The parts of one run, made in the order that the seed needs."""

    def __init__(
        self, config: RunConfig, identity: str, folder: Path, cache_dir: Path, *, progress: bool
    ) -> None:
        self.config, self.identity, self.folder = config, identity, folder
        self.started, self.clock = _now(), time.perf_counter()
        self.progress = progress
        write_atomically(folder / "config.json", json.dumps(nested(config), indent=1))
        self.data = TranslationDataModule(config.data, seed=config.seed, cache_dir=cache_dir)
        self.data.setup()
        pl.seed_everything(config.seed, verbose=False)
        self.module = TranslationModule(
            vocabulary_size=self.data.vocabulary_size,
            design=config.design,
            dims=config.dims,
            optim=config.optim,
            max_steps=config.budget.max_steps,
            beam_size=config.budget.beam_size,
        )
        steps = config.budget.max_steps
        self.curve = LearningCurve(folder / "learning_curve.csv", max_steps=steps)
        self.divergence = Divergence(config.budget.divergence_loss)
        self.metrics: list[dict[str, Any]] = []

    def finish(self, logger: Logger | None) -> dict[str, Any]:
        """Train, evaluate, and return the record."""
        trainer = self._trainer(logger)
        trainer.fit(self.module, self.data)
        self.trained, trained_seconds = time.perf_counter(), self.curve.seconds
        if self.divergence.step is None:
            torch.save(self.module.state_dict(), self.folder / "weights.pt")
            self._evaluate(trainer)
        result = self._record(trainer, trained_seconds)
        if logger is not None:
            _log_result(logger, result)
        return result

    def _trainer(self, logger: Logger | None) -> pl.Trainer:
        config = self.config
        steps = config.budget.max_steps
        callbacks: list[pl.Callback] = [self.curve, self.divergence]
        if config.optim.average_last > 0:
            first = round(steps * (1 - config.optim.average_last))
            callbacks.append(AverageLast(first))
        if self.progress:
            callbacks.append(TQDMProgressBar())
        return pl.Trainer(
            max_steps=steps,
            accelerator="auto",
            devices=1,
            precision=config.optim.precision(),
            gradient_clip_val=config.optim.clip_norm or None,
            accumulate_grad_batches=config.optim.accumulate,
            val_check_interval=config.budget.validate_every * config.optim.accumulate,
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            logger=logger if logger is not None else False,
            callbacks=callbacks,
            enable_checkpointing=False,
            enable_progress_bar=self.progress,
            enable_model_summary=False,
        )

    def _evaluate(self, trainer: pl.Trainer) -> None:
        quiet = {"verbose": False}
        for values in trainer.validate(self.module, self.data, **quiet):
            self._add("validation", values)
        for split in self.data.test_splits:
            loader = self.data.test_dataloader(split)
            for values in trainer.test(self.module, dataloaders=loader, **quiet):
                self._add(split, values)
            self._translate(trainer, split)

    def _translate(self, trainer: pl.Trainer, split: str) -> None:
        collected = Hypotheses()
        trainer.callbacks.append(collected)  # type: ignore[attr-defined]
        loader = self.data.predict_dataloader(split)
        trainer.predict(self.module, dataloaders=loader, return_predictions=False)
        trainer.callbacks.remove(collected)  # type: ignore[attr-defined]
        references = self.data.references(split)
        hypotheses = [self.data.tokenizer.decode(ids) for ids in collected.in_order(len(references))]
        text = "".join(f"{line}\n" for line in hypotheses)
        write_atomically(self.folder / "hypotheses" / f"{split}.txt", text)
        for item in score(hypotheses, references, language=self.config.data.target_language):
            self.metrics.append({"split": split, "length": None, **vars(item)})

    def _add(self, split: str, values: Any) -> None:
        for name, value in values.items():
            metric = name.rpartition("/")[2]
            signature = LOSS_SIGNATURE if metric == "loss" else "teacher-forced, per target token"
            row = {"split": split, "metric": metric, "value": float(value)}
            self.metrics.append({**row, "length": None, "signature": signature})

    def _record(self, trainer: pl.Trainer, trained_seconds: float) -> dict[str, Any]:
        ended = time.perf_counter()
        target_tokens = int(self.curve.target_tokens)
        return {
            "schema": SCHEMA,
            "id": self.identity,
            "status": "finished" if self.divergence.step is None else "diverged",
            "diverged_at_step": self.divergence.step,
            "config": nested(self.config),
            "data_fingerprint": fingerprint(self.config.data),
            "tokenizer_hash": self.data.tokenizer.hash,
            "data_report": self.data.report,
            "metrics": self.metrics,
            "parameters": sum(p.numel() for p in self.module.parameters()),
            "steps": trainer.global_step,
            "target_tokens": target_tokens,
            "seconds": {
                "train": trained_seconds,
                "evaluate": ended - self.trained,
                "total": ended - self.clock,
            },
            "tokens_per_second": target_tokens / trained_seconds,
            **circumstances(self.config),
            "started": self.started,
            "ended": _now(),
        }


def quieten() -> None:
    """Leave out of the terminal what Lightning says to those who set up a Trainer by hand."""
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")


def _log_result(logger: Logger, result: dict[str, Any]) -> None:
    logger.log_metrics({f"{row['split']}/{row['metric']}": row["value"] for row in result["metrics"]})
    logger.finalize("success")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")

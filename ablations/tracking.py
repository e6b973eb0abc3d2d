"""Weights & Biases behind one door: online with a key, offline without, never in the way."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import WandbLogger

from ablations.config import RunConfig, nested

PROJECT = "transformer-ablations"
log = logging.getLogger(__name__)


class SafeWandbLogger(WandbLogger):
    """A WandbLogger that falls silent, with one warning, where W&B fails.

    What a run measured is in its own files; the tracker is a view of them.
    """

    broken = False

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log, or fall silent."""
        if self.broken:
            return
        try:
            super().log_metrics(metrics, step)
        except Exception as error:
            self.broken = True
            warn(error)

    def finish(self, result: Mapping[str, Any] | None) -> None:
        """Close the run: with the result's metrics in its summary, or as failed without one."""
        try:
            run = self.experiment
            if result is not None:
                run.summary.update(summary(result))
            run.finish(exit_code=0 if result is not None else 1)
        except Exception as error:
            warn(error)


class Tracker:
    """Starts the W&B run of a cell.

    Args:
        runs_dir: the folder of the runs; W&B writes below it.
        enabled: False starts nothing.
        group: the study's name.
    """

    def __init__(self, runs_dir: Path, *, enabled: bool = True, group: str | None = None) -> None:
        self.enabled = enabled and os.environ.get("WANDB_MODE") != "disabled"
        self.runs_dir, self.group = runs_dir, group

    def start(
        self, config: RunConfig, identity: str, *, changes: Mapping[str, Any] | None = None
    ) -> SafeWandbLogger | None:
        """The logger of this run; None when tracking is off or W&B does not start.

        Args:
            config: the run's config, logged nested.
            identity: the run's id, here and at W&B.
            changes: what differs from the baseline; it names the run.
        """
        if not self.enabled:
            return None
        self.runs_dir.mkdir(parents=True, exist_ok=True)
        # What was logged before a kill -9 is then on the disk, but for the last second.
        os.environ.setdefault("WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL", "1")
        try:
            import wandb

            run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                dir=self.runs_dir,
                mode="offline" if is_offline() else "online",
                id=identity,
                name=run_name(config, identity, changes),
                group=self.group,
                job_type=config.task.name,
                config=nested(config),
                resume="allow",
                reinit="finish_previous",
                settings=wandb.Settings(silent=True, console="off", x_save_requirements=False),
            )
            run.define_metric("trainer/global_step")
            run.define_metric("*", step_metric="trainer/global_step", step_sync=True)
            return SafeWandbLogger(experiment=run)
        except Exception as error:
            self.enabled = False
            warn(error)
            return None


def is_offline() -> bool:
    """Whether runs are kept on this machine: no key, or W&B's own switch says so."""
    if "WANDB_MODE" in os.environ:
        return os.environ["WANDB_MODE"] != "online"
    return not os.environ.get("WANDB_API_KEY")


def run_name(config: RunConfig, identity: str, changes: Mapping[str, Any] | None) -> str:
    """What differs from the baseline, and the seed: `norm_position=post seed=2`.

    A run of no study (`changes` is None) is named by its identity instead.
    """
    if changes is None:
        return f"{identity} seed={config.seed}"
    parts = [f"{path.rpartition('.')[2]}={value}" for path, value in changes.items()]
    return " ".join([*(parts or ["baseline"]), f"seed={config.seed}"])


def summary(result: Mapping[str, Any]) -> dict[str, Any]:
    """What the W&B run's summary says of a result: status, sizes, and `final/SPLIT/METRIC`."""
    facts = ("status", "diverged_at_step", "parameters", "steps", "tokens_per_second")
    measured = {f"final/{row['split']}/{row['metric']}": row["value"] for row in result["metrics"]}
    return {**{name: result[name] for name in facts}, **measured}


def warn(error: Exception) -> None:
    """Say that W&B does not record this."""
    text = " ".join(str(error).split()) or type(error).__name__
    log.warning("W&B is off, the run goes on without it: %s", text)

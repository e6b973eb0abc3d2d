"""Weights & Biases behind one door: online with a key, offline without, never in the way.

A run there is a view of the run's own files, which are complete whatever becomes of it.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.config import RunConfig, nested
from ablations.tracked_values import (
    TABLE,
    evaluation_rows,
    recorded_curve,
    run_name,
    run_tags,
    summary,
)

if TYPE_CHECKING:
    from ablations.inspection import Inspection

PROJECT = "transformer-ablations"
STEP = "step"
INIT_SECONDS = 30.0
FINISH_SECONDS = 60.0
FILES = ("result.json", "learning_curve.csv")  # with which `ablate wandb pull` has the whole record
log = logging.getLogger(__name__)


class Tracker:
    """Starts the W&B run of a cell.

    Where the server cannot be reached, this and all later runs are logged offline; where W&B
    cannot work at all, nothing is. Either is said once.

    Args:
        runs_dir: the folder of the runs; W&B writes below it.
        enabled: False starts nothing.
        group: the study's name.
        online: True for online or nothing; None leaves it to the key and to `WANDB_MODE`.
    """

    def __init__(
        self,
        runs_dir: Path,
        *,
        enabled: bool = True,
        group: str | None = None,
        online: bool | None = None,
    ) -> None:
        self.enabled = enabled and os.environ.get("WANDB_MODE") != "disabled"
        self.runs_dir, self.group = runs_dir, group
        self.offline = is_offline() and not online
        self.fallback = not online

    def start(
        self, config: RunConfig, identity: str, *, changes: Mapping[str, Any] | None = None
    ) -> "TrackedRun | None":
        """The run at W&B; None when tracking is off or W&B does not start.

        Args:
            config: the run's config, logged nested.
            identity: the run's id, here and at W&B.
            changes: what differs from the baseline; it names and tags the run.
        """
        problem: Exception | None = None
        for offline in (False, True):
            if not self.enabled or offline < self.offline or offline > self.fallback:
                continue
            try:
                run = self._init(config, identity, changes, offline=offline)
            except Exception as error:
                problem = problem or error
                tear_down()
                continue
            self.offline = offline
            if problem is not None:
                warn("W&B cannot be reached, runs are logged offline", problem)
            return TrackedRun(run, self)
        if problem is not None:
            self.enabled = False
            warn("W&B is off, the run goes on without it", problem)
        return None

    def found(
        self,
        config: RunConfig,
        result: Mapping[str, Any],
        *,
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        """A run was there already: a W&B sweep that asked for it is given it as its own run."""
        if in_sweep():
            self.show(config, result, changes=changes)

    def show(
        self,
        config: RunConfig,
        result: Mapping[str, Any],
        *,
        changes: Mapping[str, Any] | None = None,
    ) -> bool:
        """Give W&B a run that was made before; False when that fails."""
        tracked = self.start(config, result["id"], changes=changes)
        if tracked is None:
            return False
        folder = self.runs_dir / result["id"]
        for metrics, step in recorded_curve(folder / "learning_curve.csv"):
            tracked.log(metrics, step)
        from ablations.inspection import inspect_run

        tracked.finish(result, folder, lambda: inspect_run(result["id"], runs_dir=self.runs_dir))
        return not tracked.broken

    def give_up(self, error: Exception) -> None:
        """After a failure in a run: log later ones offline, or not at all where this one was."""
        if self.offline:
            self.enabled = False
            warn("W&B is off, the run goes on without it", error)
        else:
            self.offline = True
            warn("W&B failed, later runs are logged offline", error)
        tear_down()

    def _init(
        self,
        config: RunConfig,
        identity: str,
        changes: Mapping[str, Any] | None,
        *,
        offline: bool,
    ) -> Any:
        self.runs_dir.mkdir(parents=True, exist_ok=True)
        # Tables of offline runs wait here for their upload: beside the runs, not at home.
        os.environ.setdefault("WANDB_DATA_DIR", str((self.runs_dir / ".cache").resolve()))
        wandb = quiet_wandb()
        # Inside a W&B sweep the agent names project and run.
        own = not in_sweep()
        run = wandb.init(
            project=project() if own else None,
            id=identity if own else None,
            dir=self.runs_dir,
            mode="offline" if offline else "online",
            name=run_name(config, identity, changes),
            group=self.group,
            job_type=config.task.name,
            tags=run_tags(changes),
            config={"run": identity, **nested(config)},
            resume="allow",
            reinit="finish_previous",
            settings=wandb.Settings(
                console="off",
                init_timeout=INIT_SECONDS,
                finish_timeout=FINISH_SECONDS,
                finish_timeout_raises=True,
                x_save_requirements=False,
                disable_git=True,  # asking git takes half the start, and the record has the commit
                # What was logged before a kill -9 is then on the disk, but for the last second.
                x_transaction_log_flush_interval=1.0,
            ),
        )
        run.define_metric(STEP)
        run.define_metric("*", step_metric=STEP, step_sync=True)
        return run


class TrackedRun:
    """A run at W&B; where W&B fails it falls silent.

    Args:
        run: what `wandb.init` gave.
        tracker: is told of a failure.

    Attributes:
        broken: whether it has failed.
    """

    def __init__(self, run: Any, tracker: Tracker) -> None:
        self.run, self.tracker = run, tracker
        self.broken = False
        self._before = dict(run.summary)  # of a run that goes on, all there is already

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log what was measured at a step, unless W&B has it from before a restart."""
        last = self._before.get(STEP, -1)
        known = all(self._before.get(name) == value for name, value in metrics.items())
        if step > last or (step == last and not known):
            self._attempt(lambda: self.run.log({**metrics, STEP: step}))

    def finish(
        self, result: Mapping[str, Any], folder: Path, inspect: Callable[[], "Inspection"]
    ) -> None:
        """Close the run of a cell that has a result.

        Args:
            result: the content of `result.json`.
            folder: the run's own, whose record W&B gets too.
            inspect: looks into the trained model.
        """
        found: Inspection | None = None
        if result["status"] == "finished" and not self.broken:
            try:
                found = inspect()
            except Exception as error:
                warn(f"W&B gets no pictures of {result['id']}", error)
        self._attempt(lambda: self._close(result, folder, found))

    def abandon(self, status: str) -> None:
        """Close the run of a cell without a result: `failed`, `interrupted` or `pruned`."""

        def close() -> None:
            self.run.summary["status"] = status
            self.run.finish(exit_code=0 if status == "pruned" else 1)

        self._attempt(close)

    def _close(self, result: Mapping[str, Any], folder: Path, found: "Inspection | None") -> None:
        import wandb

        pictures = {} if found is None else found.pictures
        shown = {
            name: wandb.Image(picture.pixels, caption=picture.caption)
            for name, picture in pictures.items()
        }
        table = wandb.Table(columns=list(TABLE), data=evaluation_rows(result))
        self.run.log({"evaluation": table, **shown, STEP: result["steps"]})
        self.run.summary.update({**summary(result), **({} if found is None else found.values)})
        for name in FILES:
            self.run.save(str(folder / name), base_path=str(folder), policy="now")
        self.run.finish(exit_code=0)

    def _attempt(self, action: Callable[[], None]) -> None:
        """Do it, unless W&B has failed in this run; where it fails now, tell the tracker."""
        if self.broken:
            return
        try:
            action()
        except Exception as error:
            self.broken = True
            self.tracker.give_up(error)


def is_offline() -> bool:
    """Whether runs are kept on this machine: no key, or W&B's own switch says so."""
    if "WANDB_MODE" in os.environ:
        return os.environ["WANDB_MODE"] != "online"
    return not os.environ.get("WANDB_API_KEY")


def quiet_wandb() -> Any:
    """The package, told before its first use to print nothing of its own."""
    os.environ.setdefault("WANDB_SILENT", "true")
    import wandb

    return wandb


def in_sweep() -> bool:
    """Whether a `wandb agent` started this process."""
    return "WANDB_SWEEP_ID" in os.environ


def project() -> str:
    """Where runs go at W&B."""
    return os.environ.get("WANDB_PROJECT", PROJECT)


def warn(what: str, error: Exception) -> None:
    """Say in one line what becomes of W&B, and why."""
    log.warning("%s: %s", what, " ".join(str(error).split()) or type(error).__name__)


def tear_down() -> None:
    """End W&B's own process, which may have died, so that the next run gets a new one."""
    with contextlib.suppress(Exception):
        import wandb

        wandb.teardown()

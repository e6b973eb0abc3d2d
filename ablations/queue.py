"""The queue of a study: each cell is run once, whoever is killed meanwhile.

An Optuna study, in a SQLite file or in PostgreSQL, holds one trial for each cell that is to be run.
The trial names its cell; Optuna's samplers choose nothing. What is finished is decided by
`result.json` alone, so the study may be deleted at any time when no worker runs.
"""

import contextlib
import math
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
import sqlalchemy
from optuna.trial import FrozenTrial, TrialState

from ablations.attempts import next_attempt, older_than
from ablations.entries import Entry, entries_of
from ablations.files import create_once
from ablations.processes import machine_key, process_key
from ablations.progress import shown
from ablations.storage import (
    GRACE_SECONDS,
    HEARTBEAT_SECONDS,
    locked,
    open_storage,
    parse_address,
    quiet,
)

if TYPE_CHECKING:
    from ablations.plan import Cell

UNFINISHED = (TrialState.WAITING, TrialState.RUNNING)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A cell that this process is to run.

    Attributes:
        trial_id: Optuna's id for the trial.
        id: the cell.
        config: its config by dotted name.
        changes: what differs from the study's baseline.
        pruning: what a trial of a search must know to end itself early.
    """

    trial_id: int
    id: str
    config: Mapping[str, Any]
    changes: Mapping[str, Any]
    pruning: Mapping[str, Any] | None = None


class Queue:
    """The cells of one study that wait, run, or were run.

    Args:
        storage: its address, or the path of a SQLite file; made when it is not there.
        name: the study.
        heartbeat: seconds between two signs of life of a running cell.
        grace: seconds without one after which its worker counts as dead.

    Raises:
        ValueError: the storage cannot be used.
    """

    def __init__(
        self,
        storage: str | Path,
        *,
        name: str,
        heartbeat: int = HEARTBEAT_SECONDS,
        grace: int = GRACE_SECONDS,
    ) -> None:
        self.heartbeat, self.grace = heartbeat, grace
        self._url = parse_address(storage)
        if self._url.drivername == "sqlite":
            Path(str(self._url.database)).parent.mkdir(parents=True, exist_ok=True)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with locked(self._url), quiet():
            self._storage = open_storage(self._url, heartbeat=heartbeat, grace=grace)
            self._study = optuna.create_study(
                study_name=name,
                storage=self._storage,
                sampler=optuna.samplers.RandomSampler(),
                pruner=optuna.pruners.NopPruner(),
                load_if_exists=True,
            )
        self._study_id = self._storage.get_study_id_from_name(name)

    def belong(self, runs_dir: Path) -> None:
        """Bind the study to this folder of runs.

        Raises:
            ValueError: it is that of another one, whose results would not be found here.
        """
        file = runs_dir / "studies" / "folder"
        create_once(file, uuid.uuid4().hex)
        folder = file.read_text(encoding="utf-8")
        with locked(self._url):
            known = self._study.user_attrs.get("folder")
            if known is None:
                self._study.set_user_attr("folder", folder)
        if known not in (None, folder):
            raise ValueError(
                f"study {self._study.study_name!r} in {self._url} is that of another folder of "
                f"runs than {runs_dir}; name that one with --runs, or use another database"
            )

    def fill(
        self, cells: "Sequence[Cell]", *, done: Callable[[str], bool] = lambda cell_id: False
    ) -> None:
        """Make exactly these cells wait, except those that wait, run or are done by their ids.

        What waits from an earlier, different plan is taken off the queue.
        """
        wanted = {cell.id: cell for cell in cells}
        with locked(self._url):
            present = set()
            for entry in self._entries(*UNFINISHED):
                if entry.state == TrialState.WAITING and entry.cell not in wanted:
                    self._set_state(entry.trial_id, TrialState.PRUNED)
                else:
                    present.add(entry.cell)
            new = [cell for cell_id, cell in wanted.items() if cell_id not in present]
            for cell in shown(new, "into the queue"):
                attributes = {"cell": cell.id, "config": cell.values}
                if not done(cell.id):  # asked now: at the time of the plan it may have been running
                    self._add({**attributes, "changes": cell.changes, "pruning": cell.pruning})

    def claim(self, place: str = "") -> Claim | None:
        """Take the next waiting cell; None when none waits.

        Args:
            place: the machine, or the GPU, that the cell runs on.
        """
        for entry in self._entries(TrialState.WAITING):
            if not self._set_state(entry.trial_id, TrialState.RUNNING):
                continue  # somebody else was faster
            self._storage.record_heartbeat(entry.trial_id)
            worker = f"{machine_key()} {process_key(os.getpid())}"
            for name, value in {"place": place, "worker": worker}.items():
                self._storage.set_trial_user_attr(entry.trial_id, name, value)
            attributes = self._storage.get_trial(entry.trial_id).user_attrs
            return Claim(
                trial_id=entry.trial_id,
                id=attributes["cell"],
                config=attributes["config"],
                changes=attributes["changes"],
                pruning=attributes.get("pruning"),
            )
        return None

    @contextlib.contextmanager
    def alive(self, claim: Claim) -> Iterator[None]:
        """Give signs of life for this cell while the block runs."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(self.heartbeat):
                # A sign of life may be late, but must never end a run.
                with contextlib.suppress(optuna.exceptions.StorageInternalError):
                    self._storage.record_heartbeat(claim.trial_id)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def finish(self, claim: Claim, result: Mapping[str, Any]) -> None:
        """Note the result: its validation loss as the trial's value, infinite where it diverged.

        A trial that was taken for dead meanwhile stays so; the result counts all the same.
        """
        losses = [
            row["value"]
            for row in result["metrics"]
            if (row["metric"], row["split"]) == ("loss", "validation")
        ]
        value = losses[0] if losses and math.isfinite(losses[0]) else math.inf
        self._set_state(claim.trial_id, TrialState.COMPLETE, value)

    def drop(self, claim: Claim) -> None:
        """Note that the cell has ended itself early, for good."""
        self._set_state(claim.trial_id, TrialState.PRUNED)

    def progress(self, claim: Claim) -> None:
        """Note that the cell has a new checkpoint: earlier deaths of its workers don't count."""
        with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
            self._storage.set_trial_user_attr(claim.trial_id, "progress", True)

    def fail(self, claim: Claim) -> bool:
        """Note that the cell raised; True when it waits again."""
        if not self._end(claim.trial_id, "error"):
            return False
        self._mend()
        return next_attempt(self._storage.get_trial(claim.trial_id)) is not None

    def give_back(self, claim: Claim) -> None:
        """Make the cell wait again, with nothing against it."""
        if self._end(claim.trial_id, "returned"):
            self._mend()

    def reap(self) -> list[str]:
        """Make the cells of dead workers wait again; returns the ids of those cells.

        A worker is dead when its process on this machine is gone, or without a sign of life for
        the grace period.
        """
        dead = []
        for entry, trial in self._running():
            if self._worker_is_gone(trial) and self._end(entry.trial_id, "death"):
                dead.append(entry.cell)
            elif older_than(trial, self.grace) and not self._has_heartbeat(entry.trial_id):
                # Killed between claim and first sign of life: one sign now lets it go stale.
                self._storage.record_heartbeat(entry.trial_id)
        with quiet():
            optuna.storages.fail_stale_trials(self._study)
        self._mend()
        return dead

    def others_work(self, place: str) -> bool:
        """Whether a cell runs at another place than this one."""
        places = {trial.user_attrs.get("place") for _, trial in self._running()}
        return bool(places - {place, None})

    def states(self) -> dict[str, str]:
        """`waiting` or `running`, by the id of each cell for which that is so."""
        return {entry.cell: entry.state.name.lower() for entry in self._entries(*UNFINISHED)}

    def workers(self) -> dict[str, str]:
        """Who runs each running cell, as place and process, by the id of the cell."""
        known = {e.cell: t.user_attrs for e, t in self._running() if "worker" in t.user_attrs}
        return {c: f"{t['place']} {t['worker'].split()[1]}".strip() for c, t in known.items()}

    def _entries(self, *states: TrialState) -> list[Entry]:
        """The trials in these states, in any where none is named, in the order of their numbers."""
        found = entries_of(self._storage, self._study_id)
        return [entry for entry in found if not states or entry.state in states]

    def _running(self) -> list[tuple[Entry, FrozenTrial]]:
        """The trials that run, with all that is known of them."""
        entries = self._entries(TrialState.RUNNING)
        return [(entry, self._storage.get_trial(entry.trial_id)) for entry in entries]

    def _add(self, attributes: dict[str, Any]) -> None:
        trial = optuna.create_trial(state=TrialState.WAITING, user_attrs=attributes)
        self._study.add_trial(trial)

    def _set_state(self, trial_id: int, state: TrialState, *values: float) -> bool:
        """False when somebody else ended the trial first, or took it to run."""
        try:
            return self._storage.set_trial_state_values(trial_id, state, values or None)
        except optuna.exceptions.UpdateFinishedTrialError:
            return False

    def _end(self, trial_id: int, outcome: str) -> bool:
        """End a running trial as failed; False when somebody else ended it first."""
        with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
            self._storage.set_trial_user_attr(trial_id, "outcome", outcome)
            return self._set_state(trial_id, TrialState.FAIL)
        return False

    def _mend(self) -> None:
        """Make each cell wait again whose last trial failed and may be tried again.

        What was ended by a process that was killed before it came here is found by the next one.
        """
        if not self._broken():
            return
        with locked(self._url):
            for attributes in self._broken():
                self._add(attributes)

    def _broken(self) -> list[dict[str, Any]]:
        """What the next trial knows of each cell that `_mend` is to make wait again."""
        last = {entry.cell: entry for entry in self._entries()}
        ids = [entry.trial_id for entry in last.values() if entry.state == TrialState.FAIL]
        attempts = (next_attempt(self._storage.get_trial(trial_id)) for trial_id in ids)
        return [attributes for attributes in attempts if attributes is not None]

    def _worker_is_gone(self, trial: FrozenTrial) -> bool:
        machine, _, key = trial.user_attrs.get("worker", "").partition(" ")
        return machine == machine_key() and process_key(int(key.split()[0])) != key

    def _has_heartbeat(self, trial_id: int) -> bool:
        query = sqlalchemy.text("SELECT 1 FROM trial_heartbeats WHERE trial_id = :trial")
        with self._storage.engine.connect() as connection:
            return connection.execute(query, {"trial": trial_id}).first() is not None

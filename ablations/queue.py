"""The queue of a study: each cell is run once, whoever is killed meanwhile.

An Optuna study in a SQLite file holds one trial for each cell that is to be run. The trial names
its cell; Optuna's samplers choose nothing. What is finished is decided by `result.json` alone, so
the file may be deleted at any time when no worker runs.
"""

import contextlib
import fcntl
import math
import os
import socket
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
import sqlalchemy
from optuna.trial import FrozenTrial, TrialState

from ablations.config import flatten

if TYPE_CHECKING:
    from ablations.plan import Cell

HEARTBEAT_SECONDS = 5
GRACE_SECONDS = 20
RETRIES = 2  # of a cell that raised, and of a cell whose worker died
BUSY_SECONDS = 60  # how long a process waits for another one's write
UNFINISHED = (TrialState.WAITING, TrialState.RUNNING)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A cell that this process is to run.

    Attributes:
        number: the trial's number in the study.
        id: the cell.
        config: its config by dotted name.
        changes: what differs from the study's baseline.
    """

    number: int
    id: str
    config: Mapping[str, Any]
    changes: Mapping[str, Any]


class Queue:
    """The cells of one study that wait, run, or were run.

    Args:
        path: the SQLite file, made when it is not there.
        name: the study.
        heartbeat: seconds between two signs of life of a running cell.
        grace: seconds without one after which its worker counts as dead.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str,
        heartbeat: int = HEARTBEAT_SECONDS,
        grace: int = GRACE_SECONDS,
    ) -> None:
        self.heartbeat, self.grace = heartbeat, grace
        self._lock_file = path.with_suffix(".lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with self._locked(), _quiet():
            self._storage = optuna.storages.RDBStorage(
                f"sqlite:///{path.resolve()}",
                engine_kwargs={"connect_args": {"timeout": BUSY_SECONDS}},
                heartbeat_interval=heartbeat,
                grace_period=grace,
                heartbeat_stale_trial_callback=self._requeue_after_death,
            )
            _serialize_writes(self._storage.engine)
            self._study = optuna.create_study(
                study_name=name,
                storage=self._storage,
                sampler=optuna.samplers.RandomSampler(),
                pruner=optuna.pruners.NopPruner(),
                load_if_exists=True,
            )
        self._study_id = self._storage.get_study_id_from_name(name)

    def fill(self, cells: "Sequence[Cell]") -> None:
        """Make exactly these cells wait, except those that wait or run already.

        What waits from an earlier, different plan is taken off the queue.
        """
        wanted = {cell.id: cell for cell in cells}
        with self._locked():
            present = set()
            for trial in self._trials(*UNFINISHED):
                cell_id = trial.user_attrs.get("cell")
                if trial.state == TrialState.WAITING and cell_id not in wanted:
                    self._set_state(trial.number, TrialState.PRUNED)
                else:
                    present.add(cell_id)
            for cell in (cell for cell_id, cell in wanted.items() if cell_id not in present):
                attributes = {"cell": cell.id, "config": flatten(cell.config)}
                self._add({**attributes, "changes": cell.changes})

    def claim(self) -> Claim | None:
        """Take the next waiting cell; None when none waits."""
        while self._trials(TrialState.WAITING):
            with _quiet():
                trial = self._study.ask()
            if "cell" not in trial.user_attrs:  # the last one went to somebody else meanwhile
                self._study.tell(trial, state=TrialState.PRUNED)
                continue
            self._storage.record_heartbeat(self._trial_id(trial.number))
            trial.set_user_attr("worker", f"{socket.gethostname()} {process_key(os.getpid())}")
            attributes = trial.user_attrs
            return Claim(
                number=trial.number,
                id=attributes["cell"],
                config=attributes["config"],
                changes=attributes["changes"],
            )
        return None

    @contextlib.contextmanager
    def alive(self, claim: Claim) -> Iterator[None]:
        """Give signs of life for this cell while the block runs."""
        trial_id = self._trial_id(claim.number)
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(self.heartbeat):
                # A sign of life may be late, but must never end a run.
                with contextlib.suppress(optuna.exceptions.StorageInternalError):
                    self._storage.record_heartbeat(trial_id)

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
        self._study.tell(claim.number, value, skip_if_finished=True)

    def fail(self, claim: Claim) -> bool:
        """Note that the cell raised; True when it waits again."""
        trial = self._fail(claim.number)
        return trial is not None and self._requeue(trial, "errors")

    def reap(self) -> list[str]:
        """Make the cells of dead workers wait again; returns the ids of those cells.

        A worker is dead when its process on this machine is gone, or without a sign of life for
        the grace period.
        """
        dead = []
        for trial in self._trials(TrialState.RUNNING):
            if self._worker_is_gone(trial) and self._fail(trial.number) is not None:
                self._requeue_after_death(self._study, trial)
                dead.append(trial.user_attrs["cell"])
            elif _older_than(trial, self.grace) and not self._has_heartbeat(trial.number):
                # Killed between claim and first sign of life: one sign now lets it go stale.
                self._storage.record_heartbeat(self._trial_id(trial.number))
        with _quiet():
            optuna.storages.fail_stale_trials(self._study)
        return dead

    def states(self) -> dict[str, str]:
        """`waiting` or `running`, by the id of each cell for which that is so."""
        trials = self._trials(*UNFINISHED)
        return {t.user_attrs["cell"]: t.state.name.lower() for t in trials if t.user_attrs}

    def _trials(self, *states: TrialState) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=states)

    def _trial_id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)

    def _add(self, attributes: dict[str, Any]) -> None:
        trial = optuna.create_trial(state=TrialState.WAITING, user_attrs=attributes)
        self._study.add_trial(trial)

    def _set_state(self, number: int, state: TrialState) -> bool:
        """False when somebody else ended the trial first."""
        try:
            return self._storage.set_trial_state_values(self._trial_id(number), state=state)
        except optuna.exceptions.UpdateFinishedTrialError:
            return False

    def _fail(self, number: int) -> FrozenTrial | None:
        """End a running trial as failed; None when somebody else ended it first."""
        if not self._set_state(number, TrialState.FAIL):
            return None
        return self._storage.get_trial(self._trial_id(number))

    def _requeue(self, trial: FrozenTrial, reason: str) -> bool:
        attributes = {name: value for name, value in trial.user_attrs.items() if name != "worker"}
        attributes[reason] = attributes.get(reason, 0) + 1
        if "cell" not in attributes or attributes[reason] > RETRIES:
            return False
        self._add(attributes)
        return True

    def _requeue_after_death(self, _: optuna.Study, trial: FrozenTrial) -> None:
        self._requeue(trial, "deaths")

    def _worker_is_gone(self, trial: FrozenTrial) -> bool:
        host, _, key = trial.user_attrs.get("worker", "").partition(" ")
        return host == socket.gethostname() and process_key(int(key.split()[0])) != key

    def _has_heartbeat(self, number: int) -> bool:
        query = sqlalchemy.text("SELECT 1 FROM trial_heartbeats WHERE trial_id = :trial")
        with self._storage.engine.connect() as connection:
            found = connection.execute(query, {"trial": self._trial_id(number)}).first()
        return found is not None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Only one process at a time makes the file or fills the queue."""
        with self._lock_file.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def process_key(pid: int) -> str:
    """A process of this machine: its id and its start, which tell it from a later one.

    Only the id where the start cannot be read, and `PID gone` for a process that has ended.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return f"{pid} gone" if state == "Z" else f"{pid} {fields[18]}"
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return f"{pid} gone"
    except PermissionError:
        pass
    return f"{pid}"


def _serialize_writes(engine: sqlalchemy.Engine) -> None:
    """Take SQLite's write lock when a transaction begins.

    With the default the lock comes at the first write, and two workers that read "waiting" before
    it both claim the trial.
    """

    def configure(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # else Python's driver begins transactions itself
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    def begin(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    engine.dispose()  # connections made before are without it
    sqlalchemy.event.listen(engine, "connect", configure)
    sqlalchemy.event.listen(engine, "begin", begin)


def _older_than(trial: FrozenTrial, seconds: float) -> bool:
    started = trial.datetime_start
    return started is not None and datetime.now() - started > timedelta(seconds=seconds)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence what Optuna says of heartbeats, which are given by `Queue.alive` here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        yield

"""The SQLite file of an Optuna study, for many processes at once."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy

BUSY_SECONDS = 60  # how long a process waits for another one's write


def open_storage(path: Path, *, heartbeat: int, grace: int) -> optuna.storages.RDBStorage:
    """Open the file, or make it.

    Args:
        path: the file.
        heartbeat: seconds between two signs of life of a running trial.
        grace: seconds without one after which the trial counts as stale.
    """
    storage = optuna.storages.RDBStorage(
        f"sqlite:///{path.resolve()}",
        engine_kwargs={"connect_args": {"timeout": BUSY_SECONDS}},
        heartbeat_interval=heartbeat,
        grace_period=grace,
    )
    _serialize_writes(storage.engine)
    return storage


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


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence what Optuna says of heartbeats, which are given by the queue itself here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        yield

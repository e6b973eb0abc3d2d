"""Where an Optuna study is kept for many processes at once: a SQLite file, or PostgreSQL."""

import contextlib
import fcntl
import importlib.util
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy

HEARTBEAT_SECONDS = 5
GRACE_SECONDS = 20
BUSY_SECONDS = 60  # how long a process waits for another one's write
FORMS = "sqlite:///FILE and postgresql+psycopg://USER@HOST:PORT/DATABASE"
LOCK = 4_112_017  # the number of the advisory lock, the same for every process
# Heartbeats are compared as local times, which jump twice a year anywhere but in UTC. A machine
# that is gone must lose its lock soon, not after the two hours that are usual.
SESSION = (
    "SET TIME ZONE 'UTC'",
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
)


def parse_address(address: str | Path) -> sqlalchemy.URL:
    """The address of a storage: a URL, or the path of a SQLite file.

    Raises:
        ValueError: it is of another kind, or what reads it is not installed.
    """
    if isinstance(address, Path):
        return sqlalchemy.URL.create("sqlite", database=str(address.resolve()))
    try:
        url = sqlalchemy.make_url(address)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        raise ValueError(f"storage {address!r} is no address; legal: {FORMS}") from None
    if url.drivername == "sqlite" and url.database:
        return url.set(database=str(Path(url.database).resolve()))
    if url.drivername not in ("postgresql", "postgresql+psycopg") or not url.database:
        raise ValueError(f"storage {url} is not of a legal form; legal: {FORMS}")
    if importlib.util.find_spec("psycopg") is None:
        raise ValueError(
            f"storage {url} needs psycopg; install it with: "
            "pip install 'transformer-ablations[postgresql]'"
        )
    return url.set(drivername="postgresql+psycopg")


def open_storage(url: sqlalchemy.URL, *, heartbeat: int, grace: int) -> optuna.storages.RDBStorage:
    """Open the storage, or make what it needs.

    Args:
        url: from `parse_address`.
        heartbeat: seconds between two signs of life of a running trial.
        grace: seconds without one after which the trial counts as stale.
    """
    sqlite = _is_sqlite(url)
    # A server may have been started anew between two calls.
    options: dict[str, Any] = {"pool_pre_ping": True}
    storage = optuna.storages.RDBStorage(
        url.render_as_string(hide_password=False),
        engine_kwargs={"connect_args": {"timeout": BUSY_SECONDS}} if sqlite else options,
        heartbeat_interval=heartbeat,
        grace_period=grace,
    )
    storage.engine.dispose()  # connections made before are not set up
    _set_up_connections(storage.engine)
    weakref.finalize(storage, storage.engine.dispose)
    return storage


def studies_in(address: str | Path) -> list[str]:
    """The names of the studies in a storage; none where there is no storage yet.

    Raises:
        ValueError: it cannot be used.
    """
    url = parse_address(address)
    if _is_sqlite(url) and not Path(str(url.database)).is_file():
        return []
    with locked(url), quiet():
        storage = open_storage(url, heartbeat=HEARTBEAT_SECONDS, grace=GRACE_SECONDS)
        return sorted(optuna.get_all_study_names(storage))


def check_storage(address: str) -> None:
    """Refuse an address that cannot be used.

    Raises:
        ValueError: why it cannot.
    """
    url = parse_address(address)
    if not _is_sqlite(url):
        with locked(url):
            pass


@contextlib.contextmanager
def locked(url: sqlalchemy.URL) -> Iterator[None]:
    """Only one process at a time, of all that use this storage.

    A process that ends in any way gives it free.

    Raises:
        ValueError: the storage cannot be reached.
    """
    if _is_sqlite(url):
        with Path(str(url.database)).with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        return
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)
    _set_up_connections(engine)
    try:
        connection = engine.connect()
    except sqlalchemy.exc.OperationalError as error:
        reason = str(error.orig).splitlines()[0]
        raise ValueError(f"storage {url} cannot be reached: {reason}") from None
    with connection, connection.begin():
        connection.execute(sqlalchemy.select(sqlalchemy.func.pg_advisory_xact_lock(LOCK)))
        yield


def _is_sqlite(url: sqlalchemy.URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _set_up_connections(engine: sqlalchemy.Engine) -> None:
    if _is_sqlite(engine.url):
        _serialize_writes(engine)
        return

    def configure(connection: Any, _: Any) -> None:
        for statement in SESSION:
            connection.execute(statement)
        connection.commit()

    sqlalchemy.event.listen(engine, "connect", configure)


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

    sqlalchemy.event.listen(engine, "connect", configure)
    sqlalchemy.event.listen(engine, "begin", begin)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence what Optuna says of heartbeats, which are given by the queue itself here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage")
        yield

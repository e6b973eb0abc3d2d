"""A PostgreSQL server for tests: on no network, in a folder of its own, gone when they end."""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy

USER = "postgres"  # a server refuses to be run by root


def why_not() -> str:
    """Why no server can be started here; empty where one can."""
    if _programs() is None:
        return "PostgreSQL is not installed (Debian package postgresql)"
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed (pip install 'transformer-ablations[postgresql]')"
    return ""


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Run a server; the address of its database."""
    with tempfile.TemporaryDirectory(prefix="ablations-") as name:
        folder = Path(name)
        if os.getuid() == 0:
            shutil.chown(folder, USER)
        data = folder / "data"
        _call(
            "initdb",
            "-D",
            data,
            "-A",
            "trust",
            "-U",
            USER,
            *"--no-sync --no-locale -E UTF8".split(),
        )
        # Only a socket in this folder: no port that somebody else may have.
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        _call("pg_ctl", "-D", data, "-w", "-o", options, "-l", folder / "log", "start")
        try:
            yield f"postgresql+psycopg://{USER}@/{USER}?host={folder}"
        finally:
            _call("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")


def new_database(address: str) -> str:
    """Make another database on the same server; its address."""
    name = f"test_{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(address, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return sqlalchemy.make_url(address).set(database=name).render_as_string()


def _programs() -> Path | None:
    """The folder of the server's programs, which Debian keeps off the PATH."""
    if found := shutil.which("pg_ctl"):
        return Path(found).parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


def _call(program: str, *words: object) -> None:
    command = [f"{_programs()}/{program}", *map(str, words)]
    if os.getuid() == 0:
        command = ["runuser", "-u", USER, "--", *command]
    subprocess.run(
        command, check=True, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )

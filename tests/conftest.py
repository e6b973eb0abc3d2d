"""What every test shares: one thread, repeatable examples, Multi30k's files, a database."""

import os
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch loads, also by child processes

import pytest
import torch
from hypothesis import settings

from tests.postgresql import new_database, server, why_not

torch.set_num_threads(1)
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

ROOT = Path(__file__).parents[1]


@pytest.fixture
def multi30k_path() -> Path:
    """The folder of Multi30k's parallel files; the test is skipped where it is absent."""
    default = ROOT.parent / "shared" / "data"
    path = Path(os.environ.get("ABLATIONS_DATA", default)) / "multi30k"
    if not path.is_dir():
        pytest.skip(f"no Multi30k files in {path}; ABLATIONS_DATA names the folder that holds them")
    return path


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The address of a throw-away PostgreSQL server."""
    if reason := why_not():
        pytest.skip(reason)
    with server() as address:
        yield address


@pytest.fixture
def postgresql(postgresql_server: str) -> str:
    """The address of an empty database."""
    return new_database(postgresql_server)

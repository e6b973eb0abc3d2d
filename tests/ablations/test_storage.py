"""Addresses of storages, and the lock that all who use one share."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
import sqlalchemy

from ablations import storage as storage_module
from ablations.queue import Queue
from ablations.storage import check_storage, locked, parse_address

fork = multiprocessing.get_context("fork")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> sqlalchemy.URL:
    if request.param == "sqlite":
        return parse_address(tmp_path / "a.sqlite")
    return parse_address(request.getfixturevalue("postgresql_server"))


def test_a_path_and_its_url_are_one_storage(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = parse_address(tmp_path / "a.sqlite")
    assert parse_address("sqlite:///a.sqlite") == parse_address(f"sqlite:///{url.database}") == url


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("runs/a.sqlite", "storage 'runs/a.sqlite' is no address; legal: sqlite:///FILE and "),
        ("postgresql://host:port/a", "'postgresql://host:port/a' is no address"),
        ("sqlite://", "storage sqlite:// is not of a legal form"),
        ("mysql://host/a", "storage mysql://host/a is not of a legal form"),
        ("postgresql://host", "storage postgresql://host is not of a legal form"),
        ("redis://me:secret@host/0", r"storage redis://me:\*\*\*@host/0 is not of a legal form"),
    ],
)
def test_an_illegal_address_is_refused(address: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        parse_address(address)
    assert "\n" not in str(error.value)


def test_the_extra_is_named_where_it_is_missing(monkeypatch) -> None:
    monkeypatch.setattr(storage_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs psycopg.*'transformer-ablations\[postgresql\]'"):
        parse_address("postgresql://host/a")


def test_a_server_that_is_not_there_is_said_in_a_line(tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with pytest.raises(ValueError, match="cannot be reached: ") as error:
        check_storage(f"postgresql://me:secret@/a?host={tmp_path}")
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_sweep_refuses_a_storage_before_it_reads_anything(ablate) -> None:
    code, _, said = ablate("sweep", "tiny.yaml", "--storage=mysql://host/a", "--data.path=nowhere")
    assert code == 2
    assert said.startswith("ablate: storage mysql://host/a is not of a legal form")


def test_signs_of_life_are_compared_in_utc(postgresql_server: str) -> None:
    queue = Queue(postgresql_server, name="utc")
    with queue._storage.engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SHOW timezone")).scalar() == "UTC"


def hold(url: sqlalchemy.URL, folder: Path) -> None:
    with locked(url):
        (folder / "locked").touch()
        time.sleep(60)


def test_one_process_has_the_lock_until_it_is_killed(url: sqlalchemy.URL, tmp_path: Path) -> None:
    holder = fork.Process(target=hold, args=(url, tmp_path))
    holder.start()
    assert holder.pid is not None
    while not (tmp_path / "locked").exists():
        time.sleep(0.02)
    waiter = fork.Process(target=hold, args=(url, tmp_path))
    (tmp_path / "locked").unlink()
    waiter.start()
    time.sleep(1)
    assert not (tmp_path / "locked").exists()
    os.kill(holder.pid, signal.SIGKILL)
    end = time.monotonic() + 20
    while not (tmp_path / "locked").exists():
        assert time.monotonic() < end, "the lock of a killed process stays"
        time.sleep(0.02)
    waiter.kill()
    for process in (holder, waiter):
        process.join()

"""Processes that work together end together."""

import multiprocessing
import os
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from ablations import team
from ablations.stopping import Stop
from ablations.team import run_together


def test_no_process_outlives_the_one_that_started_them(tmp_path: Path) -> None:
    parent = multiprocessing.get_context("fork").Process(target=hang_together, args=(tmp_path,))
    parent.start()
    pids = wait_for(lambda: [int(f.name) for f in tmp_path.iterdir()], count=2)
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    parent.kill()
    parent.join()
    wait_for(lambda: [pid for pid in pids if not Path(f"/proc/{pid}").exists()], count=2)


def hang_together(folder: Path) -> None:
    forkserver._forkserver._forkserver_pid = None  # type: ignore[attr-defined]  # the parent's own
    run_together(partial(hang, folder), count=2, stop=Stop(), kept=lambda: None)


def hang(folder: Path, **_: Any) -> None:
    (folder / str(os.getpid())).touch()
    time.sleep(600)


def wait_for(find: Callable[[], list[int]], *, count: int) -> list[int]:
    end = time.monotonic() + 120
    while len(found := find()) < count:
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)
    return found


class UnsendableError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def fail(kind: type[Exception], *words: Any, devices: Any, **_: Any) -> None:
    if devices.rank == 1:
        raise kind(*words)
    time.sleep(600)


@pytest.mark.parametrize(
    ("kind", "words", "seen", "message"),
    [
        (ValueError, ("no such thing",), ValueError, "no such thing"),
        (UnsendableError, (1, 2), RuntimeError, "UnsendableError: 1 and 2"),
    ],
)
def test_the_error_of_one_process_ends_all_and_is_raised_here(
    kind: Any, words: Any, seen: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team, "GRACE_SECONDS", 0.1)
    with pytest.raises(seen, match=message) as raised:
        run_together(partial(fail, kind, *words), count=2, stop=Stop(), kept=lambda: None)
    assert "in fail" in str(raised.value.__cause__)  # the traceback of the process
    assert multiprocessing.active_children() == []

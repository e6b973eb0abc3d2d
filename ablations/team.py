"""Processes that do one piece of work together: none is left when one of them ends early."""

import contextlib
import logging
import math
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from ablations.devices import Devices
from ablations.stopping import Stop

POLL_SECONDS = 0.2
GRACE_SECONDS = 10.0  # for the others to end by themselves, once one has ended early
STOPPED = 75  # exit code of a process that has kept a checkpoint
KEPT = "kept"


class RemoteError(Exception):
    """The traceback of an error in another process, as text."""


def run_together(
    work: Callable[..., None], *, count: int, stop: Stop, kept: Callable[[], None]
) -> None:
    """Call `work(devices=, stop=, kept=)` in a process for each device, until all have returned.

    A process that ends early takes the others with it, and all end with this one, however it ends.

    Args:
        work: can be pickled.
        count: the devices.
        stop: passed on to the processes when it is asked.
        kept: called when the first process calls its own.

    Raises:
        KeyboardInterrupt: they have ended because `stop` was asked.
        Exception: what the first of them to fail has raised; `ChildProcessError` for one that ended
            without a word.
    """
    # A server that has imported everything, without having run anything, forks them off.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ablations.run"])
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = str(Path(folder) / "meeting_point")
        members = [
            _Member(context, work, Devices(count=count, rank=rank, meeting_point=meeting_point))
            for rank in range(count)
        ]
        try:
            _attend(members, stop, kept)
        finally:
            for member in members:
                member.end()


class _Member:
    """One of the processes, seen from here."""

    def __init__(self, context: Any, work: Callable[..., None], devices: Devices) -> None:
        self.devices = devices
        self.failure: Exception | None = None
        self.failed_at = math.inf
        self._connection, other_end = context.Pipe(duplex=False)
        self.process = context.Process(
            target=_work, args=(work, devices, other_end, dict(os.environ))
        )
        self.process.start()
        other_end.close()

    @property
    def sources(self) -> list[Any]:
        """What becomes readable when there is something new."""
        return [self.process.sentinel, self._connection]

    def listen(self, kept: Callable[[], None]) -> None:
        """Take what it has said."""
        with contextlib.suppress(EOFError, OSError):
            while self._connection.poll():
                message = self._connection.recv()
                if message == KEPT:
                    kept()
                else:
                    self.failure, self.failed_at, traceback_text = message
                    self.failure.__cause__ = RemoteError(traceback_text)

    @property
    def blame(self) -> tuple[bool, float]:
        """The lowest is to blame: those that are left complain, or abort, without the first one."""
        code = self.process.exitcode
        return self.failure is not None or code in (None, 0, -signal.SIGABRT), self.failed_at

    def error(self) -> Exception:
        """Why it ended early."""
        if self.failure is not None:
            return self.failure
        code = self.process.exitcode
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return ChildProcessError(f"process {self.devices.rank + 1} of {self.devices.count} {how}")

    def end(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.join()
        self._connection.close()


def _attend(members: list[_Member], stop: Stop, kept: Callable[[], None]) -> None:
    """Watch them until all have ended, and say how."""
    told, running, until = False, list(members), float("inf")
    while running and time.monotonic() < until:
        wait([source for member in running for source in member.sources], timeout=POLL_SECONDS)
        if stop.asked and not told:
            told = True
            for member in running:
                member.process.terminate()
        ended = [member for member in running if member.process.exitcode is not None]
        for member in running:
            member.listen(kept)
        running = [member for member in running if member not in ended]
        if any(member.process.exitcode for member in ended):
            until = min(until, time.monotonic() + GRACE_SECONDS)
    _judge(members, stop)


def _judge(members: list[_Member], stop: Stop) -> None:
    codes = [member.process.exitcode for member in members]
    if not any(code != 0 for code in codes):
        return
    if stop.asked and any(code in (STOPPED, -signal.SIGTERM) for code in codes):
        raise KeyboardInterrupt
    raise min(members, key=lambda member: member.blame).error()


def _work(
    work: Callable[..., None],
    devices: Devices,
    connection: Connection,
    environment: dict[str, str],
) -> None:
    """What each process does."""
    os.environ.update(environment)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(max(1, torch.get_num_threads() // devices.count))

    if not devices.is_first:
        logging.disable(logging.WARNING)  # the first one says the same

    def kept() -> None:
        if devices.is_first:
            connection.send(KEPT)

    with Stop() as stop:
        try:
            work(devices=devices, stop=stop, kept=kept)
        except KeyboardInterrupt:
            sys.exit(STOPPED)
        except Exception as error:
            text = f"\n{traceback.format_exc()}"
            connection.send((_picklable(error), time.monotonic(), text))
            sys.exit(1)


def _picklable(error: Exception) -> Exception:
    """The error, or where it cannot be sent, one that says the same."""
    try:
        return pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def _end_with_parent() -> None:
    """End at once when the process that started this one is gone: its cell is given to others."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

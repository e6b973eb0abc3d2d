"""A sweep as a process with workers, to be killed: by the command, or forked from this one."""

import multiprocessing
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any
from unittest import mock

from ablations import launch, queue, worker
from ablations.cli import main


class Sweep(ABC):
    """The command `ablate sweep`, started again by `start` when it has ended before all is done.

    Args:
        study: the study's file.
        runs_dir: the folder of the runs.
        workers: processes that train.
        storage: the address of the queue; None for the file in the folder.
    """

    def __init__(
        self, study: Path, runs_dir: Path, *, workers: int, storage: str | None = None
    ) -> None:
        self.words = ["sweep", str(study), "--no-wandb", f"--runs={runs_dir}"]
        self.words += [f"--workers={workers}", *([f"--storage={storage}"] if storage else [])]
        self.starts = 0
        self.start()

    def start(self) -> None:
        """Type the command again."""
        self.starts += 1
        self.launcher = self._launch()

    @abstractmethod
    def _launch(self) -> "subprocess.Popen[bytes] | Fork":
        """Start the launcher."""

    def exit_code(self) -> int | None:
        """Of the launcher; None while it lives."""
        return self.launcher.poll()

    def kill(self) -> None:
        """Kill the launcher by signal 9."""
        self.launcher.kill()
        self.launcher.wait()

    def workers(self) -> list[int]:
        """The worker processes that live."""
        found = []
        for file in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, parent = file.read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == self.launcher.pid and state != "Z":
                found.append(int(file.parent.name))
        return found


class Commands(Sweep):
    """Started as a user starts it."""

    def _launch(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "ablations.cli", *self.words],
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )


class Fork(multiprocessing.get_context("fork").Process):  # type: ignore[name-defined,misc]
    """A forked process that is asked as those of `subprocess` are."""

    def poll(self) -> int | None:
        """The exit code; None while it lives."""
        return self.exitcode

    def wait(self) -> None:
        """Until it has ended."""
        self.join()


class Forked(Sweep):
    """Forked from this process, and so are its workers: nothing is imported once more."""

    def _launch(self) -> Fork:
        process = Fork(target=_sweep, args=(self.words,))
        process.start()
        return process


class ForkedWorker(launch.Worker):
    """A worker that is forked from the launcher."""

    def start(self) -> None:
        """Start it; an open SQLite file must not go through a fork."""
        assert _opened, "the launcher opened its queue in another way"
        for opened in _opened:
            opened._storage.engine.dispose()
        self.process = Fork(target=_work, args=(self.words, self.log, self.environment))
        self.process.start()


_opened: list[queue.Queue] = []


class OpenedQueue(queue.Queue):
    """A queue that `ForkedWorker` knows of."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        _opened.append(self)


def _sweep(words: list[str]) -> None:
    _write_to(Path(os.devnull))
    with (
        mock.patch.object(launch, "Worker", ForkedWorker),
        mock.patch.object(worker, "Queue", OpenedQueue),
    ):
        sys.exit(main(words))


def _work(words: list[str], log: Path, environment: dict[str, str]) -> None:
    _write_to(log)
    os.environ.update(environment)
    sys.argv = words[2:]
    sys.exit(worker.main())


def _write_to(file: Path) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(handle, stream)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")

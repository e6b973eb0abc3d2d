"""Measurements one after the other, each with a time by which it must have ended.

They are made in a process beside this one. A measurement that fails, that hangs or that takes its
process with it (an error on a GPU spoils every later call from the same process) is told, and those
after it get a new process.
"""

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

IMPORTED = ["benchmarks._to_bleu", "benchmarks.levels"]  # before the first process starts

Values = dict[str, float]
Measurement = Callable[[], Any]


@dataclass
class Part:
    """What was found by name, and what was not: with the reason, or for want of time."""

    found: dict[str, Values] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def measure(
    measurements: Mapping[str, Callable[["Processes"], Values]],
    *,
    until: float,
    say: Callable[[str, Values], None],
) -> Part:
    """Make each measurement, as far as time goes.

    Args:
        measurements: by name; each is told where to run, see `alone` and `Processes.run`.
        until: when the last of them must have ended, as `time.perf_counter` counts.
        say: is told a name and what was found, at once.
    """
    part, names = Part(), list(measurements)
    processes = Processes(until=until)
    for index, name in enumerate(names):
        try:
            part.found[name] = measurements[name](processes)
        except TimeoutError:
            part.left_out = names[index:]
            break
        except Exception as error:
            part.failed[name] = (str(error) or repr(error)).splitlines()[0]
            processes.end()
        else:
            say(name, part.found[name])
    processes.end()
    return part


def alone(measurement: Measurement) -> Callable[["Processes"], Any]:
    """A measurement that is made by one process."""
    return lambda processes: processes.run(measurement)[0]


class Processes:
    """Processes that live on from one measurement to the next.

    Args:
        until: when none of them is waited for any more, as `time.perf_counter` counts.
    """

    def __init__(self, *, until: float) -> None:
        self.until = until
        self._members: list[_Process] = []

    def run(self, measurement: Measurement, *, count: int = 1) -> list[Any]:
        """The results of so many processes that do the same at the same time.

        Raises:
            TimeoutError: not all of them have ended in time.
            RuntimeError: what one of them has raised, in words.
            ChildProcessError: one has ended without a word.
        """
        self._members += [_Process() for _ in range(count - len(self._members))]
        for member in self._members[:count]:
            member.begin(measurement)
        return [member.result(until=self.until) for member in self._members[:count]]

    def end(self) -> None:
        """End all at once, whatever they do."""
        for member in self._members:
            member.end()
        self._members.clear()


class _Process:
    """One of the processes, seen from here."""

    def __init__(self) -> None:
        # A server that has imported everything, and used no GPU, forks them off.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(IMPORTED)
        self._connection, other_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(other_end,), daemon=True)
        self._process.start()
        other_end.close()

    def begin(self, measurement: Measurement) -> None:
        self._connection.send(measurement)

    def result(self, *, until: float) -> Any:
        if not self._connection.poll(max(0.0, until - time.perf_counter())):
            raise TimeoutError
        try:
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode
            raise ChildProcessError(f"its process ended with exit code {code}") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()


def _serve(connection: Connection) -> None:
    """What each process does, until nobody asks any more."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            measurement = connection.recv()
            try:
                answer = measurement()
            except Exception as error:
                answer = RuntimeError(f"{type(error).__name__}: {error}")
            connection.send(answer)

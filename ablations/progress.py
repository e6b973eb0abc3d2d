"""What a person, or a log file, sees while cells are run."""

import csv
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, track
from rich.progress import Progress as Bar

from ablations.states import Planned, failures

if TYPE_CHECKING:
    from ablations.plan import Cell

EMPTY: Mapping[str, str] = {}
Item = TypeVar("Item")


def shown(items: Sequence[Item], doing: str) -> Iterable[Item]:
    """The items, one after the other; on a terminal with a bar that says what is being done."""
    console = Console(stderr=True)
    quiet = not console.is_terminal
    return track(items, doing, console=console, transient=True, disable=quiet)


class Progress:
    """Bars on a terminal, for all and for each running cell; a line for each cell that ends.

    Without a terminal there are only the lines.

    Args:
        cells: what is run.
        runs_dir: the folder of the runs.
    """

    def __init__(self, cells: "Sequence[Cell]", *, runs_dir: Path) -> None:
        self.runs_dir, self.total = runs_dir, len(cells)
        self.left = {cell.id: cell for cell in cells}
        self.counts: Counter[str] = Counter()
        self._started = time.monotonic()
        self._told_failures = {file for cell in cells for file in failures(self.runs_dir / cell.id)}
        self._found_failures: set[Path] = set()
        console = Console(stderr=True, highlight=False)
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        self._bar = Bar(*columns, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=self.total)
        self._running: dict[str, TaskID] = {}

    def __enter__(self) -> "Progress":
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Leave the bar as it is."""
        self._bar.stop()

    @property
    def is_live(self) -> bool:
        """Whether there is a terminal that shows what each worker does."""
        return not self._bar.disable

    def update(self, states: Mapping[str, str], workers: Mapping[str, str] = EMPTY) -> None:
        """Say what has ended since the last call.

        A failure is told by the call after the one that finds it: only then it is settled whether
        the cell runs again.

        Args:
            states: `waiting` or `running`, by the id of each cell for which that is so.
            workers: who runs it, by the id of each running cell.
        """
        begun = [cell for cell in self.left.values() if (self.runs_dir / cell.id).exists()]
        for cell in begun:
            result = self._result(cell)
            self._tell_failures(cell, runs_again=cell.id in states or result is not None)
            if result is not None:
                del self.left[cell.id]
                self.counts[result["status"]] += 1
                self.say(f"[{self.total - len(self.left)}/{self.total}] {ended(cell, result)}")
        self._bar.update(
            self._task, completed=self.total - len(self.left), description=self._description(states)
        )
        self._show_running({c: w for c, w in workers.items() if c in self.left})

    def _show_running(self, workers: Mapping[str, str]) -> None:
        for cell_id in self._running.keys() - workers.keys():
            self._bar.remove_task(self._running.pop(cell_id))
        for cell_id, worker in workers.items():
            cell = self.left[cell_id]
            if cell_id not in self._running:
                self._running[cell_id] = self._bar.add_task("", total=cell.config.updates or None)
            step, loss = position(cell, self.runs_dir)
            self._bar.update(
                self._running[cell_id],
                completed=step,
                description=f"{worker}: {title(cell)}{f', loss {loss}' if loss else ''}",
            )

    def _tell_failures(self, cell: "Cell", *, runs_again: bool) -> None:
        again = "runs again" if runs_again else "given up"
        found = set(failures(self.runs_dir / cell.id)) - self._told_failures
        for file in sorted(found & self._found_failures):
            self.say(f"failed, {again}: {title(cell)}: {last_line(file)} ({file})")
            self._told_failures.add(file)
        self._found_failures |= found

    def say(self, line: str) -> None:
        """Print a line, above the bar where there is one."""
        if self._bar.disable:
            print(line, flush=True)
        else:
            self._bar.console.print(line, markup=False, soft_wrap=True)

    def _description(self, states: Mapping[str, str]) -> str:
        running = sum(state == "running" for state in states.values())
        counts = {
            "running": running,
            "diverged": self.counts["diverged"],
            "failed": len(self.left.keys() - states.keys()),
        }
        parts = [f"{count} {name}" for name, count in counts.items() if count]
        if done := self.counts.total():
            per_cell = (time.monotonic() - self._started) / done
            parts.append(f"{3600 / per_cell:.0f} cells/h")
            parts.append(f"{duration(per_cell * len(self.left))} left")
        return ", ".join(parts)

    def _result(self, cell: "Cell") -> dict[str, Any] | None:
        folder = self.runs_dir / cell.id
        try:
            return json.loads((folder / "result.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            pass
        try:
            pruned = json.loads((folder / "pruned.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return {"status": "pruned", **pruned} if cell.pruning else None


def position(cell: Planned, runs_dir: Path) -> tuple[int, str]:
    """The update that a running cell has come to, and its training loss, as it last said."""
    try:
        lines = (runs_dir / cell.id / "learning_curve.csv").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return 0, ""
    last = list(csv.DictReader(lines))[-1:]
    return (int(last[0]["step"]), last[0]["train_loss"]) if last else (0, "")


def running(cell: Planned, *, runs_dir: Path, worker: str) -> str:
    """What a worker does now, in a line."""
    step, loss = position(cell, runs_dir)
    at = f"update {step} of {cell.updates}, loss {loss}" if loss else "has just begun"
    return f"running on {worker}: {title(cell)}: {at}"


def at_work(cells: Sequence[Planned], runs_dir: Path, workers: Mapping[str, str]) -> list[str]:
    """A line for each running cell; then the pace, as finished runs took, where it is known.

    Args:
        cells: of the study.
        runs_dir: the folder of the runs.
        workers: who runs it, by the id of each running cell.
    """
    files = {cell.id: runs_dir / cell.id / "result.json" for cell in cells}
    left = {cell.id: cell for cell in cells if not files[cell.id].exists()}
    lines = [
        running(left[cell_id], runs_dir=runs_dir, worker=worker)
        for cell_id, worker in workers.items()
        if cell_id in left
    ]
    seconds = [_seconds(file) for cell_id, file in files.items() if cell_id not in left]
    known = [taken for taken in seconds if taken is not None]
    if lines and known:
        per_cell = sum(known) / len(known) / len(lines)
        lines.append(f"{3600 / per_cell:.0f} cells/h, {duration(per_cell * len(left))} left")
    return lines


def _seconds(file: Path) -> float | None:
    """Seconds that a finished run took; None where its record cannot be read."""
    try:
        return float(json.loads(file.read_text(encoding="utf-8"))["seconds"]["total"])
    except (ValueError, KeyError, TypeError):
        return None


def title(cell: Planned) -> str:
    """The cell in a line: its id, what differs from the baseline, its seed."""
    changes = [f"{path.rpartition('.')[2]}={value}" for path, value in cell.changes.items()]
    return " ".join([cell.id, *(changes or ["baseline"]), f"seed={cell.seed}"])


def ended(cell: "Cell", result: Mapping[str, Any]) -> str:
    """What came of a cell, in a line: of many measured values, one in validation, one in test."""
    if result["status"] == "pruned":
        return f"pruned {result['pruned']}: {title(cell)}"
    seconds = duration(result["seconds"]["total"])
    if result["status"] == "diverged":
        return f"diverged at step {result['diverged_at_step']}: {title(cell)}, {seconds}"
    rows, main = result["metrics"], cell.config.task.value.metrics[0]
    losses = [row for row in rows if (row["split"], row["metric"]) == ("validation", "loss")]
    tested = [row for row in rows if row["split"] != "validation" and row["metric"] == main]
    measured = [
        f"{measured_on(row)} {row['metric']} {row['value']:.4g}"
        for row in (*losses[:1], *tested[:1])
    ]
    return f"finished: {title(cell)}, {seconds}, {', '.join(measured)}"


def measured_on(row: Mapping[str, Any]) -> str:
    """The split of a measured value, with the length where only a part was measured: `test@8`."""
    return row["split"] if row["length"] is None else f"{row['split']}@{row['length']}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, rounded to what matters."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def last_line(file: Path) -> str:
    """The last line of a traceback: the error and its message."""
    lines = file.read_text(encoding="utf-8").strip().splitlines()
    return lines[-1] if lines else "no message"

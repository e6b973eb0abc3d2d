"""What has become of the cells of a study, as their folders say. Cheap to import."""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar


class Planned(Protocol):
    """What the state of a cell is said with: a cell of a plan, or one that was kept of it."""

    @property
    def id(self) -> str:
        """The run's identity, also the name of its folder."""

    @property
    def changes(self) -> Mapping[str, Any]:
        """What differs from the baseline, by dotted name, the seed left out."""

    @property
    def seed(self) -> int:
        """The seed."""

    @property
    def updates(self) -> int:
        """Updates of the weights; 0 where there is nothing to train."""


Some = TypeVar("Some", bound=Planned)


def without_result(cells: Sequence[Some], runs_dir: Path) -> list[Some]:
    """The cells without a result in this folder."""
    there = {entry.name for entry in os.scandir(runs_dir)} if runs_dir.is_dir() else set()
    return [
        cell
        for cell in cells
        if cell.id not in there or not (runs_dir / cell.id / "result.json").is_file()
    ]


def changes_text(changes: Mapping[str, Any]) -> str:
    """What differs from the baseline, in words."""
    return " ".join(f"{path}={value}" for path, value in changes.items()) or "baseline"


def state_of(folder: Path) -> str:
    """`finished`, `diverged`, `pruned`, `failed`, `missing` or `unreadable`."""
    try:
        return json.loads((folder / "result.json").read_text(encoding="utf-8"))["status"]
    except FileNotFoundError:
        if (folder / "pruned.json").is_file():
            return "pruned"
        return "failed" if failures(folder) else "missing"
    except (ValueError, KeyError, TypeError):
        return "unreadable"


def failures(folder: Path) -> list[Path]:
    """What went wrong in a run, a file each time, the last one last."""
    return sorted(
        folder.glob("failure-*.txt"), key=lambda file: int(file.stem.removeprefix("failure-"))
    )


def count_states(
    name: str,
    cells: Sequence[Planned],
    runs_dir: Path,
    *,
    queued: Mapping[str, str] | None = None,
) -> str:
    """Cells by state; `queued` is the state of those without a result that are in the queue."""
    states = (state_of(runs_dir / cell.id) for cell in cells)
    if queued:
        states = (
            queued.get(cell.id, state) if state in ("missing", "failed") else state
            for cell, state in zip(cells, states, strict=True)
        )
    found = ", ".join(f"{count} {state}" for state, count in sorted(Counter(states).items()))
    return f"{name}: {len(cells)} cells: {found}"


def report_failures(cells: Sequence[Planned], runs_dir: Path) -> int:
    """Name the failed cells with the last line of what went wrong; 1 when there are cells."""
    for cell in cells:
        if files := failures(runs_dir / cell.id):
            last = files[-1].read_text(encoding="utf-8").strip().splitlines()[-1:]
            changes = changes_text(cell.changes)
            print(f"failed: {cell.id} {changes} seed={cell.seed}: {''.join(last)}")
    return 1 if cells else 0

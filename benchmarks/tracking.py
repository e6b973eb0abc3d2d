"""What tracking costs: the same cell with W&B offline and without, in turn, in one process.

    python -m benchmarks.tracking

The updates of a cell are timed by themselves, without validation: that is what tracking may slow by
2% at most. What it costs around them, its start and its finish with pictures and tables, stands by
itself; so does what W&B costs once a process, its import, and what its own process takes. Seconds
of the CPU are those of this process with all its threads; wall seconds show a busy machine, too.
Prints a table, then a line of JSON.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import _measuring  # first: it chooses the threads, before torch is loaded

# isort: split
from ablations import run
from ablations.callbacks import LearningCurve
from ablations.config import RunConfig, config_from_flat
from ablations.plan import make_plan
from ablations.study import load_study
from ablations.tracking import Tracker, tear_down

WITHOUT, WITH = ARMS = ("without", "with W&B offline")
KINDS = {
    "updates_cpu": "updates, CPU",
    "updates_wall": "updates, wall",
    "around_cpu": "around them, CPU",
    "around_wall": "around them, wall",
    "cell_cpu": "whole cell, CPU",
}
Measured = dict[str, dict[str, list[float]]]


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print, and return what is printed as JSON."""
    arguments = _parser().parse_args(words)
    os.environ["WANDB_MODE"] = "offline"
    base = make_plan(load_study(arguments.study)).cells[0].config
    changes = {} if arguments.updates is None else {"budget.max_steps": arguments.updates}
    cell = config_from_flat(changes, base=base)
    with tempfile.TemporaryDirectory() as name:
        measured, first = _measure(cell, Path(name), repetitions=arguments.repetitions)
    tear_down()  # W&B's own process: its seconds are known once it has ended
    times = os.times()
    cells = arguments.repetitions + 1
    found = {
        "study": arguments.study,
        "updates": cell.budget.max_steps,
        "seconds": measured,
        "ratio": {
            kind: _measuring.ratios(by_arm[WITH], by_arm[WITHOUT])
            for kind, by_arm in measured.items()
        },
        "first_cell_cpu_seconds": first,
        "service_cpu_seconds_a_cell": (times.children_user + times.children_system) / cells,
        **_measuring.machine(),
    }
    print(_table(found))
    print(json.dumps(found))
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", default="demo", help="whose baseline is the cell (demo)")
    parser.add_argument("--updates", type=int, help="of the cell (the study's)")
    parser.add_argument("--repetitions", type=int, default=5)
    return parser


def _measure(cell: RunConfig, folder: Path, *, repetitions: int) -> tuple[Measured, float]:
    """Seconds by kind and arm, and the CPU seconds of a first cell, which imports W&B."""
    trackers = {arm: Tracker(folder, enabled=arm == WITH, group="benchmark") for arm in ARMS}
    run_in = partial(_run, cache_dir=folder / ".cache")
    first = run_in(replace(cell, seed=0), folder / "first", trackers[WITH])["cell_cpu"]
    measured: Measured = {kind: {arm: [] for arm in ARMS} for kind in KINDS}
    for repetition in range(repetitions):
        # Whoever is second finds warm caches, so they take turns at that, too.
        for arm in ARMS if repetition % 2 else reversed(ARMS):
            seconds = run_in(cell, folder / f"{arm}-{repetition}", trackers[arm])
            for kind in KINDS:
                measured[kind][arm].append(seconds[kind])
    return measured, first


class _Clock(LearningCurve):
    """A learning curve that times the updates, tracking included and validation left out."""

    cpu = wall = 0.0

    def on_train_start(self, *words: Any) -> None:
        self._start()
        super().on_train_start(*words)

    def on_validation_start(self, *words: Any) -> None:
        self._stop()
        super().on_validation_start(*words)

    def on_validation_end(self, *words: Any) -> None:
        super().on_validation_end(*words)
        self._start()

    def on_train_end(self, *words: Any) -> None:
        super().on_train_end(*words)
        self._stop()

    @classmethod
    def _start(cls) -> None:
        cls.cpu -= time.process_time()
        cls.wall -= time.perf_counter()

    @classmethod
    def _stop(cls) -> None:
        cls.cpu += time.process_time()
        cls.wall += time.perf_counter()


def _run(cell: RunConfig, runs_dir: Path, tracker: Tracker, *, cache_dir: Path) -> dict[str, float]:
    """Seconds of one cell by kind."""
    tracker.runs_dir, _Clock.cpu, _Clock.wall = runs_dir, 0.0, 0.0
    cpu, wall = time.process_time(), time.perf_counter()
    with mock.patch.object(run, "LearningCurve", _Clock):
        run.run_cell(cell, runs_dir=runs_dir, cache_dir=cache_dir, tracker=tracker)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "updates_cpu": _Clock.cpu,
        "updates_wall": _Clock.wall,
        "around_cpu": cpu - _Clock.cpu,
        "around_wall": wall - _Clock.wall,
        "cell_cpu": cpu,
    }


def _table(found: dict[str, Any]) -> str:
    seconds, width = found["seconds"], 24
    lines = [
        f"{found['study']}: {found['updates']} updates, "
        f"{len(seconds['cell_cpu'][WITH])} repetitions; {found['threads']} thread(s) of "
        f"{found['hardware']}",
        f"{'seconds':<20} {WITHOUT:>{width}} {WITH:>{width}} {'ratio':>22} {'more':>{width}}",
    ]
    for kind, title in KINDS.items():
        arms = seconds[kind]
        more = [one - other for one, other in zip(arms[WITH], arms[WITHOUT], strict=True)]
        lines.append(
            f"{title:<20} {_measuring.median(arms[WITHOUT]):>{width}} "
            f"{_measuring.median(arms[WITH]):>{width}} "
            f"{_measuring.median(found['ratio'][kind], digits=3):>22} "
            f"{_measuring.median(more):>{width}}"
        )
    lines += [
        f"W&B's own process: {found['service_cpu_seconds_a_cell']:.2f} CPU seconds a cell",
        f"the first cell, which imports W&B: {found['first_cell_cpu_seconds']:.1f} CPU seconds",
        "Medians with their range over repetitions; ratios repetition by repetition.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()

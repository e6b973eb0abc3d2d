"""What a sweep costs besides training and evaluating, and how long a large plan takes.

    python -m benchmarks.overhead

Two workers run cells that train for about ten seconds each; how many updates that is, two short
cells tell before. What is not spent in training or evaluating is overhead: imports, the queue,
building models, writing results, and waiting at the end. Beside the whole sweep stands what remains
from the first cell's begin to each worker's last result: what more cells would cost. A plan is
timed cold, in a process of its own. Wall seconds, so a busy machine shows. Prints a table with what
each should stay under on a machine with nothing else to do, then a line of JSON.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks import _measuring  # noqa: F401  one thread for the commands, too

WORKERS = 2
SHORT = 100  # updates of the cells that tell how many a longer one takes
OVERHEAD_TARGET, PLAN_TARGET = 0.05, 3.0
SWEPT = {
    "task": "sequences",
    "data.n_train": 2000,
    "data.n_eval": 50,
    "dims.d_model": 64,
    "dims.n_encoder_layers": 2,
    "dims.n_decoder_layers": 2,
}
PLANNED: dict[str, list[Any]] = {
    "design.position": ["sinusoidal", "none", "rope", "alibi"],
    "design.norm_position": ["pre", "post"],
    "dims.n_heads": [2, 4, 8],
    "dims.dropout": [0.0, 0.1, 0.2, 0.3],
}


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print, and return what is printed as JSON."""
    arguments = _parser().parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tried = _sweep(folder / "tried", cells=WORKERS, updates=SHORT)
        updates = round(SHORT * arguments.seconds / tried["train"])
        found = _sweep(folder / "swept", cells=arguments.cells, updates=updates)
        found |= _plan(folder, cells=arguments.planned)
    print(f"{'':<26} {'seconds':>9} {'overhead':>9} {'target':>9}")
    print(f"{'whole sweep':<26} {found['wall']:>9.1f} {found['overhead']:>9.1%}")
    print(
        f"{'first start to last result':<26} {found['span']:>9.1f} {found['later_overhead']:>9.1%} "
        f"{OVERHEAD_TARGET:>9.0%}"
    )
    print(f"{'training a cell, median':<26} {found['train']:>9.1f}")
    planned = f"plan of {found['planned']:,} cells"
    print(f"{planned:<26} {found['plan']:>9.1f} {'':>9} {PLAN_TARGET:>9.1f}")
    print(json.dumps(found))
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Time what is neither training nor evaluating.")
    parser.add_argument("--cells", type=int, default=20, help="that are run (20)")
    parser.add_argument("--seconds", type=float, default=10, help="that each trains (10)")
    parser.add_argument("--planned", type=int, default=10_000, help="cells of the plan (10,000)")
    return parser


def _sweep(folder: Path, *, cells: int, updates: int) -> dict[str, Any]:
    folder.mkdir()
    base = {**SWEPT, "budget.max_steps": updates, "budget.validate_every": max(1, updates // 2)}
    _write(folder / "swept.yaml", base=base, axes={}, seeds=cells)
    started, wall = time.time(), time.perf_counter()
    _ablate(folder, "sweep", "swept.yaml", "--no-wandb", f"--workers={WORKERS}")
    wall = time.perf_counter() - wall
    files = sorted(folder.glob("runs/*/result.json"))
    seconds = [json.loads(file.read_text(encoding="utf-8"))["seconds"] for file in files]
    busy = sum(one["train"] + one["evaluate"] for one in seconds)
    first = min(file.with_name("config.json").stat().st_mtime for file in files)
    ends = sorted(file.stat().st_mtime for file in files)
    # A worker that finds no further cell waits for the others, which is no cost of a cell.
    idle = sum(ends[-1] - end for end in ends[-WORKERS:])
    span = ends[-1] - first
    return {
        "cells": len(files),
        "updates": updates,
        "train": statistics.median(one["train"] for one in seconds),
        "wall": wall,
        "start": first - started,
        "span": span,
        "idle": idle,
        "overhead": 1 - busy / (WORKERS * wall),
        "later_overhead": 1 - busy / (WORKERS * span - idle),
    }


def _plan(folder: Path, *, cells: int) -> dict[str, Any]:
    seeds = math.ceil(cells / math.prod(len(levels) for levels in PLANNED.values()))
    _write(folder / "planned.yaml", base={"task": "sequences"}, axes=PLANNED, seeds=seeds)
    started = time.perf_counter()
    lines = _ablate(folder, "plan", "planned.yaml", "--runs=none").splitlines()
    return {
        "plan": time.perf_counter() - started,
        "planned": sum(line.endswith("missing") for line in lines),
    }


def _write(file: Path, *, base: dict[str, Any], axes: dict[str, Any], seeds: int) -> None:
    study = {"design": "factorial", "base": base, "axes": axes}
    file.write_text(yaml.safe_dump({**study, "seeds": list(range(1, seeds + 1))}, sort_keys=False))


def _ablate(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "ablations.cli", *words]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if answer.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{answer.stdout}{answer.stderr}")
    return answer.stdout


if __name__ == "__main__":
    main()

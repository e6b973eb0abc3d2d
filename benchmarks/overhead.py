"""What a sweep costs besides training and evaluating, and how long a large plan takes.

    python -m benchmarks.overhead

Two workers run cells of about ten seconds each. What is not spent in training or evaluating is
overhead: imports, the queue, building models, writing results, and waiting at the end. Beside the
whole sweep stands what remains after the first cell has begun, which is all that more cells cost.
A plan is timed cold, in a process of its own. Wall seconds, so a busy machine shows. Prints a
table, then a line of JSON.
"""

import argparse
import json
import math
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
SWEPT = {
    "task": "sequences",
    "data.n_train": 2000,
    "data.n_eval": 50,
    "dims.d_model": 64,
    "dims.n_encoder_layers": 2,
    "dims.n_decoder_layers": 2,
}
PLANNED = {
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
        found = _sweep(folder, cells=arguments.cells, updates=arguments.updates)
        found |= _plan(folder, cells=arguments.planned)
    print(f"{'':<26} {'seconds':>9} {'overhead':>9}")
    for what, share in (("whole sweep", "overhead"), ("after the first start", "later_overhead")):
        seconds = found["wall"] - (found["start"] if share == "later_overhead" else 0.0)
        print(f"{what:<26} {seconds:>9.1f} {found[share]:>9.1%}")
    print(f"{'a cell, median':<26} {found['cell']:>9.1f}")
    print(f"{'plan of ' + format(found['planned'], ',') + ' cells':<26} {found['plan']:>9.1f}")
    print(json.dumps(found))
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Time what is neither training nor evaluating.")
    parser.add_argument("--cells", type=int, default=20, help="that are run (20)")
    parser.add_argument("--updates", type=int, default=400, help="of each (400)")
    parser.add_argument("--planned", type=int, default=10_000, help="cells of the plan (10,000)")
    return parser


def _sweep(folder: Path, *, cells: int, updates: int) -> dict[str, Any]:
    base = {**SWEPT, "budget.max_steps": updates, "budget.validate_every": max(1, updates // 2)}
    _write(folder / "swept.yaml", base=base, axes={}, seeds=cells)
    started, wall = time.time(), time.perf_counter()
    _ablate(folder, "sweep", "swept.yaml", "--no-wandb", f"--workers={WORKERS}")
    wall = time.perf_counter() - wall
    files = sorted(folder.glob("runs/*/result.json"))
    seconds = [json.loads(file.read_text(encoding="utf-8"))["seconds"] for file in files]
    busy = sorted(one["train"] + one["evaluate"] for one in seconds)
    start = min(file.with_name("config.json").stat().st_mtime for file in files) - started
    return {
        "cells": len(files),
        "cell": busy[len(busy) // 2],
        "wall": wall,
        "start": start,
        "overhead": 1 - sum(busy) / (WORKERS * wall),
        "later_overhead": 1 - sum(busy) / (WORKERS * (wall - start)),
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
    answer = subprocess.run(
        [sys.executable, "-m", "ablations.cli", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout


if __name__ == "__main__":
    main()

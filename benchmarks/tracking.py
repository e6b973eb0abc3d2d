"""What tracking costs: the same cell with W&B offline and without, in turn, in one process.

`python -m benchmarks.tracking` prints the seconds of training and of whole cells. What W&B costs
once a process, its import, stands by itself, and so does what its own process takes.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablations.config import config_from_flat
from ablations.plan import make_plan
from ablations.run import run_cell
from ablations.study import load_study
from ablations.tracking import Tracker, tear_down

ARMS = ("without", "with W&B offline")


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Print the seconds, and return them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", default="demo", help="whose baseline is the cell (demo)")
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args(words)
    os.environ["WANDB_MODE"] = "offline"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = make_plan(load_study(arguments.study)).cells[0].config
        cell = config_from_flat({"budget.max_steps": arguments.updates}, base=base)
        trackers = {arm: Tracker(folder, enabled=arm != ARMS[0], group="benchmark") for arm in ARMS}
        began = time.process_time()
        _run(replace(cell, seed=0), folder, trackers[ARMS[1]])
        found: dict[str, Any] = {"first_cell_cpu_seconds": time.process_time() - began}
        measured: dict[str, list[dict[str, float]]] = {arm: [] for arm in ARMS}
        for repetition in range(arguments.repetitions):
            # Whoever is second finds warm caches, so they take turns at that, too.
            for arm in ARMS if repetition % 2 else reversed(ARMS):
                own = folder / f"{arm}-{repetition}"
                measured[arm].append(_run(cell, own, trackers[arm]))
    for kind in ("train_wall", "cell_cpu", "cell_wall"):
        pairs = zip(*(measured[arm] for arm in ARMS), strict=True)
        ratios = [with_it[kind] / without[kind] for without, with_it in pairs]
        found[kind] = {arm: [row[kind] for row in measured[arm]] for arm in ARMS}
        found[kind]["ratio"] = statistics.median(ratios)
        texts = [f"{arm} {_median(found[kind][arm])} s" for arm in ARMS]
        print(f"{kind}: {', '.join(texts)}; ratio by repetition {_median(ratios)}")
    tear_down()  # W&B's own process: its seconds are known once it has ended
    times = os.times()
    share = (times.children_user + times.children_system) / (arguments.repetitions + 1)
    found["service_cpu_seconds_a_cell"] = share
    print(
        f"first cell with W&B: {found['first_cell_cpu_seconds']:.2f} CPU seconds, with its import"
    )
    print(f"W&B's own process: {share:.3f} CPU seconds a cell")
    print(json.dumps(found))
    return found


def _run(cell: Any, runs_dir: Path, tracker: Tracker) -> dict[str, float]:
    tracker.runs_dir = runs_dir
    wall, cpu = time.perf_counter(), time.process_time()
    result = run_cell(cell, runs_dir=runs_dir, cache_dir=runs_dir.parent, tracker=tracker)
    return {
        "train_wall": result["seconds"]["train"],
        "cell_cpu": time.process_time() - cpu,
        "cell_wall": time.perf_counter() - wall,
    }


def _median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3f} [{min(values):.3f}, {max(values):.3f}]"


if __name__ == "__main__":
    main()

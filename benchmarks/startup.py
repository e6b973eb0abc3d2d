"""How long one waits: for help, for the state of a study, for the first update of a cell.

    python -m benchmarks.startup

Commands start cold, in a process of their own; the status is that of a study that was planned
before, and of one that never was. A cell has started at its first update: cold where it is the
first of its process, imports and reading of data included, warm where a worker has run another seed
before. Wall seconds, so a busy machine shows. Prints a table with what each should stay under on a
machine with nothing else to do, then a line of JSON.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import _measuring

COMMANDS = {
    "ablate --help": ["--help"],
    "ablate status demo": ["status", "demo"],
    "ablate status, unplanned": ["status", "demo", "--runs=none"],
}
COLD, WARM = "a cell, cold", "a cell, warm"
TARGETS = {"ablate --help": 0.5, "ablate status demo": 1.5, WARM: 0.3}
TWO_CELLS = """
import time
started = time.perf_counter()
import sys
from pathlib import Path
from ablations.plan import make_plan
from ablations.run import run_cell
from ablations.study import load_study
from lightning_modules.supervised import TokenModule

class Started(Exception):
    pass

def first_update(*words):
    raise Started

TokenModule.training_step = first_update
runs = Path(sys.argv[1])
cells = make_plan(load_study("demo")).cells
for cell in cells[0], cells[1]:
    try:
        run_cell(cell.config, runs_dir=runs, cache_dir=runs / ".cache")
    except Started:
        print(time.perf_counter() - started)
    started = time.perf_counter()
"""


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print, and return what is printed as JSON."""
    parser = argparse.ArgumentParser(description="Time what one waits for.")
    parser.add_argument("--repetitions", type=int, default=5, help="of each (5)")
    arguments = parser.parse_args(words)
    seconds: dict[str, list[float]] = {name: [] for name in (*COMMANDS, COLD, WARM)}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "runs").mkdir()
        _python("-m", "ablations.cli", "plan", "demo", cwd=folder)
        for _ in range(arguments.repetitions):
            for name, command in COMMANDS.items():
                started = time.perf_counter()
                _python("-m", "ablations.cli", *command, cwd=folder)
                seconds[name].append(time.perf_counter() - started)
            runs = Path(folder) / "runs"
            for name, line in zip(
                (COLD, WARM), _python("-c", TWO_CELLS, str(runs), cwd=folder).split(), strict=True
            ):
                seconds[name].append(float(line))
    print(f"{'seconds':<25} {'median and range':>20} {'target':>8}")
    for name, values in seconds.items():
        target = f"{TARGETS[name]:>8}" if name in TARGETS else ""
        print(f"{name:<25} {_measuring.median(values):>20} {target}".rstrip())
    print(json.dumps(seconds))
    return seconds


def _python(*words: str, cwd: str) -> str:
    answer = subprocess.run([sys.executable, *words], cwd=cwd, capture_output=True, text=True)
    if answer.returncode != 0:
        raise SystemExit(f"{words}\n{answer.stdout}{answer.stderr}")
    return answer.stdout


if __name__ == "__main__":
    main()

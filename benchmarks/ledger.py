"""Print how long it takes to read many runs and to make a long table of them, from a cold start.

    python -m benchmarks.ledger

Each line is a process of its own, imports included: 10,000 records are read, and a study of 200
levels is read and compared. Some records are damaged on purpose, and counted as left out. Beside
each time stands what it should stay under on a machine with nothing else to do.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ablations.config import RunConfig, config_from_flat, nested, run_id

FINGERPRINT = "0123456789abcdef"
LEVELS, SEEDS, RECORDS, DAMAGED = 200, 5, 10_000, 7
LOAD_TARGET, TABLE_TARGET = 3.0, 2.0

LOAD = """
from ablations.ledger import load
ledger = load({folder!r})
print(ledger.frame["run"].nunique(), len(ledger.problems))
"""
TABLE = """
import pandas
from ablations.ledger import load
from analysis.frames import StudyView
from analysis.rendering import render
from analysis.tables import study_table
expected = pandas.read_json({plan!r}, dtype={{"id": str}})
frame = load({folder!r}, ids=expected["id"]).frame
levels = list(expected["dims.d_ff"].unique())
view = StudyView(name="long", axes={{"dims.d_ff": levels}}, baseline={{}}, seeds={seeds!r},
                 metric="bleu", split="test", expected=expected)
table = study_table(frame, view)
render(table, format="markdown")
print(len(table.rows), len(table.missing))
"""


def record(config: RunConfig, value: float) -> dict:
    """A record as `ablate run` writes it, with a score of its own."""
    row = {"split": "test", "length": None}
    bleu = {**row, "metric": "bleu", "value": value, "signature": "tok:13a"}
    loss = {**row, "metric": "loss", "value": 3 - value / 20, "signature": "nats per target token"}
    return {
        "schema": 1,
        "id": run_id(config, FINGERPRINT),
        "status": "finished",
        "diverged_at_step": None,
        "config": nested(config),
        "data_fingerprint": FINGERPRINT,
        "tokenizer_hash": "aa",
        "metrics": [bleu, {**bleu, "metric": "chrf"}, loss, {**loss, "split": "validation"}],
        "undefined": [],
        "parameters": 1_000_000,
        "steps": 1000,
        "target_tokens": 4_000_000,
        "seconds": {"train": 60.0, "evaluate": 5.0, "total": 66.0},
        "tokens_per_second": 2666.7,
        "hardware": "a CPU",
        "threads": 1,
        "git_commit": None,
        "command": "ablate run",
        "started": "2026-01-01T00:00:00+00:00",
        "ended": "2026-01-01T00:01:06+00:00",
    }


def write(folder: Path, n_records: int, n_levels: int) -> Path:
    """Write records, some damaged, and the plan of a study of the first of them."""
    expected = []
    for index in range(n_records):
        level, seed = 1 + index // SEEDS, 1 + index % SEEDS
        config = config_from_flat({"dims.d_ff": level, "seed": seed})
        entry = record(config, 20 + (index * 2654435761 % 1000) / 500)
        file = folder / entry["id"] / "result.json"
        file.parent.mkdir()
        text = json.dumps(entry, indent=1)
        file.write_text(text[: len(text) // 2] if index >= n_records - DAMAGED else text)
        if level <= n_levels:
            expected.append({"id": entry["id"], "seed": seed, "dims.d_ff": level})
    plan = folder / "plan.json"
    plan.write_text(json.dumps(expected))
    return plan


def timed(code: str) -> tuple[str, str]:
    """How long a new process takes to run this code, and what it prints."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    worked = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{wall:.2f} s, {worked:.2f} s of them on a core", done.stdout.strip()


def main(argv: list[str] | None = None) -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--levels", type=int, default=LEVELS)
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = str(write(folder, asked.records, asked.levels))
        seconds, found = timed(LOAD.format(folder=name))
        read, left_out = found.split()
        print(f"{read} records read, {left_out} damaged ones left out: {seconds}", end="")
        print(f" (target: under {LOAD_TARGET:.0f} s)")
        seconds, found = timed(TABLE.format(folder=name, plan=plan, seeds=range(1, SEEDS + 1)))
        rows, missing = found.split()
        print(f"table of {rows} rows, {missing} runs missing: {seconds}", end="")
        print(f" (target: under {TABLE_TARGET:.0f} s)")


if __name__ == "__main__":
    main()

"""A sweep whose processes are killed at random moments, compared with one that is left alone.

Run by itself: `python -m tests.ablations.chaos --kills 20 --storage postgresql`. The launcher and
the workers are forked from this process, for to import torch takes longer than a cell; with
`--commands` they are started as a user starts them.
"""

import argparse
import contextlib
import csv
import itertools
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from optuna.trial import TrialState

from ablations.config import config_from_flat
from ablations.ledger import load, read_record
from ablations.plan import Cell, make_plan
from ablations.queue import Queue
from ablations.study import load_study
from ablations.worker import queue_file
from tests.ablations.processes import Commands, Forked, Sweep
from tests.postgresql import new_database, server

NAME = "chaos"
BASE = {
    "task": "sequences",
    "data.n_train": 60,
    "data.n_eval": 6,
    "data.batch_size": 8,
    "data.eval_lengths": "1x",
    "dims.d_model": 8,
    "dims.n_heads": 2,
    "dims.d_ff": 8,
    "dims.n_encoder_layers": 1,
    "dims.n_decoder_layers": 1,
    "optim.accumulate": 2,
    "budget.validate_every": 20,
}
STUDY = """
description: a sweep under fire
base: {base}
axes:
  design.norm_position: [pre, post]
seeds: {seeds}
"""


def write_study(folder: Path, *, cells: int, updates: int) -> Path:
    """A study of so many cells, each with two levels; every seed stands for two of them."""
    base = config_from_flat({**BASE, "budget.max_steps": updates})
    assert base.budget.max_steps == updates
    file = folder / f"{NAME}.yaml"
    values = {**BASE, "budget.max_steps": updates}
    file.write_text(STUDY.format(base=values, seeds=list(range(1, cells // 2 + 1))))
    return file


def cells_of(study: Path) -> list[Cell]:
    """The cells of a study file."""
    return make_plan(load_study(str(study))).cells


def check(
    cells: Sequence[Cell], *, disturbed: Path, undisturbed: Path, storage: str | None = None
) -> None:
    """Every cell exactly once, bit by bit what it is in the other folder; nothing is left over."""
    ledger = load(disturbed)
    assert ledger.problems == []
    assert sorted(ledger.frame["run"].unique()) == sorted(cell.id for cell in cells)
    for cell in cells:
        here, there = disturbed / cell.id, undisturbed / cell.id
        one, two = (read_record(folder / "result.json") for folder in (here, there))
        for name in ("status", "metrics", "steps", "target_tokens"):
            assert one[name] == two[name], (cell.id, name)
        assert untimed(here) == untimed(there), cell.id
        before, after = (
            torch.load(folder / "weights.pt", weights_only=True)["state_dict"]
            for folder in (there, here)
        )
        assert all(torch.equal(before[name], after[name]) for name in before), cell.id
    assert list(disturbed.glob("*/*checkpoint*")) == []
    assert list(disturbed.glob("*/failure-*.txt")) == []
    queue = Queue(storage or queue_file(disturbed, NAME), name=NAME)
    queue.reap()
    assert queue.states() == {}
    assert queue._entries(TrialState.RUNNING) == []
    ended = Counter(entry.cell for entry in queue._entries(TrialState.COMPLETE))
    assert set(ended.values()) <= {1}, "a cell was finished twice"


def untimed(folder: Path) -> list[dict[str, str]]:
    """The learning curve, but for the seconds."""
    with (folder / "learning_curve.csv").open() as file:
        return [{n: v for n, v in row.items() if n != "seconds"} for row in csv.DictReader(file)]


def resumed(runs_dir: Path) -> int:
    """How often the runs of a folder went on from a checkpoint, in all."""
    return sum(read_record(file)["resumed"] for file in runs_dir.glob("*/result.json"))


def disturb(sweep: Sweep, *, kills: int, pause: float, seed: int) -> dict[str, int]:
    """Kill workers and the launcher at random until the sweep is done; gives the kills of each.

    Args:
        sweep: what is disturbed.
        kills: how often, if it takes as long.
        pause: seconds between two kills, on average.
        seed: of the moments and of whom they hit.
    """
    generator, done = random.Random(seed), {"worker": 0, "launcher": 0}
    while True:
        end = time.monotonic() + generator.uniform(0, 2 * pause)
        while time.monotonic() < end and sweep.exit_code() is None:
            time.sleep(0.05)
        if sweep.exit_code() == 0:
            return done
        if sweep.exit_code() is not None:
            assert sweep.starts <= kills + 5, "it ends by itself before all is done"
            sweep.start()
        elif sum(done.values()) < kills and (workers := sweep.workers()):
            if generator.random() < 0.25:
                sweep.kill()
                done["launcher"] += 1
            else:
                os.kill(generator.choice(workers), signal.SIGKILL)
                done["worker"] += 1


def run_alone(sweep: Sweep) -> float:
    """Leave a sweep undisturbed; the seconds that it takes."""
    began = time.monotonic()
    while sweep.exit_code() is None:
        time.sleep(0.05)
    assert sweep.exit_code() == 0
    return time.monotonic() - began


def main() -> None:
    """Print what was done to the sweep; an assertion fails where it did harm."""
    arguments = _parser().parse_args()
    os.environ["ABLATIONS_CHECKPOINT_SECONDS"] = "0.2"
    make = Commands if arguments.commands else Forked
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgresql = stack.enter_context(server()) if "postgresql" in arguments.storage else ""
        study = write_study(folder, cells=arguments.cells, updates=arguments.updates)
        # As many workers, and so as many threads in each: other sums are rounded otherwise.
        alone = make(study, folder / "alone", workers=arguments.workers)
        pause = run_alone(alone) / arguments.kills
        for seed, kind in itertools.product(arguments.seeds, arguments.storage):
            began, runs_dir = time.monotonic(), folder / f"{kind}-{seed}"
            storage = new_database(postgresql) if kind == "postgresql" else None
            sweep = make(study, runs_dir, workers=arguments.workers, storage=storage)
            kills = disturb(sweep, kills=arguments.kills, pause=pause, seed=seed)
            check(
                cells_of(study), disturbed=runs_dir, undisturbed=folder / "alone", storage=storage
            )
            seconds = time.monotonic() - began
            print(
                f"{kind}, seed {seed}: {kills}, {sweep.starts} starts, {resumed(runs_dir)} times "
                f"gone on from a checkpoint, {seconds:.0f} s: each of {arguments.cells} cells "
                "once, equal, none left running",
                flush=True,
            )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = ("sqlite", "postgresql")
    parser.add_argument("--storage", choices=kinds, nargs="+", default=["sqlite"])
    parser.add_argument("--cells", type=int, default=40)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--commands", action="store_true")
    return parser


if __name__ == "__main__":
    main()

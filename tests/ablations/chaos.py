"""A sweep whose processes are killed at random moments, compared with one that is left alone.

Run by itself: `python -m tests.ablations.chaos --kills 20`.
"""

import argparse
import csv
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from optuna.trial import TrialState

from ablations.config import config_from_flat
from ablations.ledger import load, read_record
from ablations.plan import Cell, make_plan
from ablations.queue import Queue
from ablations.study import load_study
from ablations.worker import queue_file, work

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


def check(cells: Sequence[Cell], *, disturbed: Path, undisturbed: Path) -> None:
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
    queue = Queue(queue_file(disturbed, NAME), name=NAME)
    queue.reap()
    assert queue.states() == {}
    assert queue._trials(TrialState.RUNNING) == []


def untimed(folder: Path) -> list[dict[str, str]]:
    """The learning curve, but for the seconds."""
    with (folder / "learning_curve.csv").open() as file:
        return [{n: v for n, v in row.items() if n != "seconds"} for row in csv.DictReader(file)]


def resumed(runs_dir: Path) -> int:
    """How often the runs of a folder went on from a checkpoint, in all."""
    return sum(read_record(file)["resumed"] for file in runs_dir.glob("*/result.json"))


class Sweep:
    """The command `ablate sweep`, started again whenever it ends before all is done."""

    def __init__(self, study: Path, runs_dir: Path, *, workers: int) -> None:
        words = [sys.executable, "-m", "ablations.cli", "sweep", str(study), "--no-wandb"]
        self.words = [*words, f"--runs={runs_dir}", f"--workers={workers}"]
        self.environment = {**os.environ, "ABLATIONS_CHECKPOINT_SECONDS": "0.2"}
        self.starts = 0
        self.start()

    def start(self) -> None:
        """Type the command again."""
        self.starts += 1
        self.process = subprocess.Popen(
            self.words, env=self.environment, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def workers(self) -> list[int]:
        """The worker processes that live."""
        found = []
        for file in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, parent = file.read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == self.process.pid and state != "Z":
                found.append(int(file.parent.name))
        return found


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
        while time.monotonic() < end and sweep.process.poll() is None:
            time.sleep(0.05)
        if sweep.process.poll() == 0:
            return done
        if sweep.process.poll() is not None:
            sweep.start()
        elif sum(done.values()) < kills and (workers := sweep.workers()):
            if generator.random() < 0.25:
                os.kill(sweep.process.pid, signal.SIGKILL)
                sweep.process.wait()
                done["launcher"] += 1
            else:
                os.kill(generator.choice(workers), signal.SIGKILL)
                done["worker"] += 1


def disturb_forked(
    cells: Sequence[Cell], runs_dir: Path, *, kills: int, pause: float, seed: int
) -> None:
    """The same with three workers that start at once, for they are forked from this process.

    Every fourth time all of them are killed, as their launcher's death would end them.
    """
    fork, generator = multiprocessing.get_context("fork"), random.Random(seed)
    queue = Queue(queue_file(runs_dir, NAME), name=NAME)
    missing, team = list(cells), []
    while missing:
        queue.reap()
        if not queue.states():
            queue.fill(missing)
        team = [process for process in team if process.is_alive()]
        while len(team) < 3:
            team.append(fork.Process(target=partial(work, NAME, runs_dir, wandb=False)))
            team[-1].start()
        time.sleep(generator.uniform(0, 2 * pause))
        if kills:
            kills -= 1
            for victim in team if generator.random() < 0.25 else [generator.choice(team)]:
                os.kill(victim.pid, signal.SIGKILL)
                victim.join()
        missing = [cell for cell in cells if not (runs_dir / cell.id / "result.json").exists()]
    for process in team:
        process.join()
    assert kills == 0, "it was over too soon"


def run_alone(study: Path, runs_dir: Path) -> float:
    """Run the sweep undisturbed, on one worker; the seconds that it takes."""
    began = time.monotonic()
    assert Sweep(study, runs_dir, workers=1).process.wait() == 0
    return time.monotonic() - began


def main() -> None:
    """Print what was done to the sweep; an assertion fails where it did harm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=40)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study = write_study(folder, cells=arguments.cells, updates=arguments.updates)
        pause = run_alone(study, folder / "alone") / arguments.kills
        for seed in arguments.seeds:
            began, runs_dir = time.monotonic(), folder / f"disturbed-{seed}"
            sweep = Sweep(study, runs_dir, workers=arguments.workers)
            kills = disturb(sweep, kills=arguments.kills, pause=pause, seed=seed)
            check(cells_of(study), disturbed=runs_dir, undisturbed=folder / "alone")
            seconds = time.monotonic() - began
            print(
                f"seed {seed}: {kills}, {sweep.starts} starts, {resumed(runs_dir)} times gone on "
                f"from a checkpoint, {seconds:.0f} s: each of {arguments.cells} cells once, equal",
                flush=True,
            )


if __name__ == "__main__":
    main()

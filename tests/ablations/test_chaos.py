"""Kills at random moments: every cell once, and the same as without them."""

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from ablations.queue import Queue
from ablations.worker import queue_file, work
from tests.ablations.chaos import (
    NAME,
    Sweep,
    cells_of,
    check,
    disturb,
    resumed,
    run_alone,
    write_study,
)

fork = multiprocessing.get_context("fork")  # a new process would import torch once more


def test_six_kills_of_three_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = cells_of(write_study(tmp_path, cells=4, updates=20))
    for folder in ("alone", "disturbed"):
        Queue(queue_file(tmp_path / folder, NAME), name=NAME).fill(cells)
    assert work(NAME, tmp_path / "alone", wandb=False) == 0
    monkeypatch.setenv("ABLATIONS_CHECKPOINT_SECONDS", "0.05")
    queue = Queue(queue_file(tmp_path / "disturbed", NAME), name=NAME)
    generator, kills, team = random.Random(1), 0, []

    def worker() -> Any:
        arguments = {"wandb": False}
        process = fork.Process(target=work, args=(NAME, tmp_path / "disturbed"), kwargs=arguments)
        process.start()
        return process

    team = [worker() for _ in range(3)]
    while queue.states():
        time.sleep(generator.uniform(0.1, 0.4))
        if kills < 6:
            victim = generator.randrange(3)
            os.kill(team[victim].pid, signal.SIGKILL)
            team[victim].join()
            team[victim] = worker()
            kills += 1
        queue.reap()
    for process in team:
        process.join()
    # What was killed three times before its first checkpoint is for the next call to run.
    queue.fill([c for c in cells if not (tmp_path / "disturbed" / c.id / "result.json").exists()])
    assert work(NAME, tmp_path / "disturbed", wandb=False) == 0
    check(cells, disturbed=tmp_path / "disturbed", undisturbed=tmp_path / "alone")
    assert kills == 6
    assert resumed(tmp_path / "alone") == 0


@pytest.mark.skipif(
    "ABLATIONS_CHAOS" not in os.environ, reason="takes minutes; ABLATIONS_CHAOS=1 runs it"
)
def test_twenty_kills_of_workers_and_launcher(tmp_path: Path) -> None:
    study = write_study(tmp_path, cells=40, updates=40)
    pause = run_alone(study, tmp_path / "alone") / 20
    sweep = Sweep(study, tmp_path / "disturbed", workers=3)
    kills = disturb(sweep, kills=20, pause=pause, seed=1)
    assert sum(kills.values()) == 20
    check(cells_of(study), disturbed=tmp_path / "disturbed", undisturbed=tmp_path / "alone")

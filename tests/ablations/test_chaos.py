"""Kills at random moments: every cell once, and the same as without them."""

import os
from pathlib import Path

import pytest

from ablations.queue import Queue
from ablations.worker import queue_file, work
from tests.ablations.chaos import (
    NAME,
    Sweep,
    cells_of,
    check,
    disturb,
    disturb_forked,
    run_alone,
    write_study,
)


def test_six_kills_of_three_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = cells_of(write_study(tmp_path, cells=4, updates=12))
    Queue(queue_file(tmp_path / "alone", NAME), name=NAME).fill(cells)
    assert work(NAME, tmp_path / "alone", wandb=False) == 0
    monkeypatch.setenv("ABLATIONS_CHECKPOINT_SECONDS", "0.05")
    disturb_forked(cells, tmp_path / "disturbed", kills=6, pause=0.2, seed=1)
    check(cells, disturbed=tmp_path / "disturbed", undisturbed=tmp_path / "alone")


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

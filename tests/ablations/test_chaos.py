"""Kills at random moments: every cell once, and the same as without them."""

import os
from pathlib import Path

import pytest

from tests.ablations.chaos import cells_of, check, disturb, run_alone, write_study
from tests.ablations.processes import Forked


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest) -> str | None:
    """The address of the queue; None for the file in the folder of the runs."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgresql")


def test_four_kills_of_three_workers_and_launcher(
    storage: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = write_study(tmp_path, cells=4, updates=8)
    run_alone(Forked(study, tmp_path / "alone", workers=1))
    monkeypatch.setenv("ABLATIONS_CHECKPOINT_SECONDS", "0.05")
    sweep = Forked(study, tmp_path / "disturbed", workers=3, storage=storage)
    kills = disturb(sweep, kills=4, pause=0.3, seed=6)
    assert sum(kills.values()) == 4, "it was over too soon"
    assert kills["launcher"], "nobody killed the launcher"
    check(
        cells_of(study),
        disturbed=tmp_path / "disturbed",
        undisturbed=tmp_path / "alone",
        storage=storage,
    )


@pytest.mark.skipif(
    "ABLATIONS_CHAOS" not in os.environ, reason="takes minutes; ABLATIONS_CHAOS=1 runs it"
)
def test_twenty_kills_of_workers_and_launcher(
    storage: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = write_study(tmp_path, cells=40, updates=40)
    monkeypatch.setenv("ABLATIONS_CHECKPOINT_SECONDS", "0.2")
    took = run_alone(Forked(study, tmp_path / "alone", workers=1))
    sweep = Forked(study, tmp_path / "disturbed", workers=3, storage=storage)
    kills = disturb(sweep, kills=20, pause=took / 40, seed=1)
    assert sum(kills.values()) == 20, "it was over too soon"
    check(
        cells_of(study),
        disturbed=tmp_path / "disturbed",
        undisturbed=tmp_path / "alone",
        storage=storage,
    )

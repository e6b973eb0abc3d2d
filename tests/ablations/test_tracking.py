"""Weights & Biases is a view: it can fail, a run cannot fail by it."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import wandb

from ablations import tracking
from ablations.config import RunConfig
from ablations.tracking import Tracker, is_offline, run_name
from tests.ablations.tiny import tiny

RESULT = {
    "status": "finished",
    "diverged_at_step": None,
    "parameters": 10,
    "steps": 2,
    "tokens_per_second": 5.0,
    "metrics": [{"split": "test", "metric": "bleu", "value": 12.5}],
}


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)


def test_an_offline_run_holds_config_curve_and_result(tmp_path: Path) -> None:
    tracker = Tracker(tmp_path, group="study")
    changes = {"design.norm_position": "post", "dims.n_heads": 4}
    logger = tracker.start(tiny(design__norm_position="post"), "abc123", changes=changes)
    assert logger is not None
    logger.log_metrics({"train/loss": 3.0}, step=5)
    logger.log_metrics({"train/loss": 2.0}, step=4)  # a lower step is kept, too
    logger.finish(RESULT)
    [folder] = (tmp_path / "wandb").glob("offline-run-*-abc123")
    records = _records(folder)
    [run] = records["run"]
    assert run["config"]["update"]["design"]["norm_position"] == "post"
    assert (run["run_group"], run["job_type"]) == ("study", "translation")
    assert run["display_name"] == "norm_position=post n_heads=4 seed=1"
    assert [item["item"]["train/loss"] for item in records["history"]] == [3.0, 2.0]
    assert any(part["update"].get("final/test/bleu") == 12.5 for part in records["summary"])


def _records(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What W&B's own reader finds in an offline run, by kind of record."""
    command = [Path(sys.executable).parent / "wandb", "leet", "inspect", "--json", folder]
    found = subprocess.run(command, capture_output=True, check=True, text=True)
    records: dict[str, list[dict[str, Any]]] = {}
    for line in found.stdout.splitlines():
        record = json.loads(line)
        records.setdefault(record["type"], []).append(record[record["type"]])
    return records


@pytest.mark.parametrize(
    ("key", "mode", "offline"),
    [
        (None, None, True),
        ("k", None, False),
        ("k", "offline", True),
        (None, "online", False),
        ("k", "disabled", True),
    ],
)
def test_without_a_key_runs_stay_here(monkeypatch, key, mode, offline: bool) -> None:
    for name, value in (("WANDB_API_KEY", key), ("WANDB_MODE", mode)):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert is_offline() is offline


@pytest.mark.parametrize("disabled_by", ["flag", "environment"])
def test_switched_off_it_starts_nothing(tmp_path: Path, monkeypatch, disabled_by: str) -> None:
    monkeypatch.setattr(wandb, "init", None)
    if disabled_by == "environment":
        monkeypatch.setenv("WANDB_MODE", "disabled")
    tracker = Tracker(tmp_path / "runs", enabled=disabled_by != "flag")
    assert tracker.start(tiny(), "abc123") is None
    assert not (tmp_path / "runs").exists()


def test_a_failing_start_is_one_warning(tmp_path: Path, monkeypatch, caplog) -> None:
    def no_server(**_: Any) -> None:
        raise ConnectionError("no server\nat all")

    monkeypatch.setattr(wandb, "init", no_server)
    tracker = Tracker(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert [tracker.start(tiny(seed=n), f"id{n}") for n in (1, 2)] == [None, None]
    assert [record.message for record in caplog.records] == [
        "W&B is off, the run goes on without it: no server at all"
    ]


def test_failures_while_logging_are_one_warning(caplog) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise OSError("disk full")

    logger = tracking.SafeWandbLogger(experiment=Broken())  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        logger.log_metrics({"train/loss": 1.0}, step=1)
        logger.log_metrics({"train/loss": 1.0}, step=2)
    assert [record.message for record in caplog.records] == [
        "W&B is off, the run goes on without it: disk full"
    ]
    logger.finish(RESULT)


def test_names_say_what_differs() -> None:
    assert run_name(RunConfig(seed=3), "abc", {}) == "baseline seed=3"
    assert run_name(RunConfig(seed=3), "abc", None) == "abc seed=3"

"""Runs that go to a server, here a stand-in on this machine."""

import logging
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ablations import tracking
from ablations.config import nested
from ablations.run import run_cell
from ablations.tracking import Tracker
from tests.ablations.tiny import tiny
from tests.ablations.wandb_server import WandbServer

ROOT = Path(__file__).parents[2]


def run(tracker: Tracker, **changes: Any) -> dict[str, Any]:
    runs = {"runs_dir": tracker.runs_dir, "cache_dir": tracker.runs_dir / ".cache"}
    return run_cell(tiny(**changes), tracker=tracker, **runs, changes={"design.mask": "x"})


def test_a_run_online_has_config_curve_table_pictures_and_record(
    server: WandbServer, tmp_path: Path
) -> None:
    result = run(Tracker(tmp_path, group="study"))
    [(identity, found)] = server.runs.items()
    assert identity == result["id"]
    assert (found["groupName"], found["jobType"]) == ("study", "translation")
    assert (found["displayName"], found["tags"]) == ("mask=x seed=1", ["mask=x"])
    config = {name: part["value"] for name, part in found["config"].items() if name != "_wandb"}
    given = {"run": identity, **nested(tiny())}
    assert config == {name: value for name, value in given.items() if value != {}}
    assert [row["step"] for row in found["history"] if "train/loss" in row] == [*range(1, 11)]
    assert found["summary"]["status"] == found["state"] == "finished"
    record = tmp_path / identity / "result.json"
    assert found["files"]["result.json"] == record.read_bytes()
    media = "".join(found["files"])
    assert all(name in media for name in ("table/evaluation", "images/attention/encoder"))


def test_a_killed_run_goes_on_as_the_same_run_with_each_step_once(
    server: WandbServer, tmp_path: Path
) -> None:
    code = (
        "import os, sys, time\nfrom pathlib import Path\n"
        "from ablations.tracking import Tracker\nfrom tests.ablations.tiny import tiny\n"
        "run = Tracker(Path(sys.argv[1])).start(tiny(), 'abc123')\n"
        "for step in range(1, 6):\n    run.log({'train/loss': 1.0 / step}, step)\n"
        "run.log({'validation/loss': 2.0}, 5)\nsys.stdin.read()\nos.kill(os.getpid(), 9)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], cwd=ROOT, stdin=subprocess.PIPE
    )
    server.wait(lambda: len(server.runs.get("abc123", {}).get("history", ())) == 6)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    tracked = Tracker(tmp_path).start(tiny(), "abc123")
    assert tracked is not None
    for step in range(3, 9):
        tracked.log({"train/loss": 1.0 / step}, step)
        if step == 5:
            tracked.log({"validation/loss": 2.0}, 5)
    tracked.abandon("interrupted")
    [found] = server.runs.values()
    rows = found["history"]
    assert [row["step"] for row in rows if "train/loss" in row] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [row["step"] for row in rows if "validation/loss" in row] == [5]


@pytest.mark.parametrize("trouble", ["no server", "wrong key", "malformed key"])
def test_without_a_server_runs_are_logged_here_with_one_warning(
    server: WandbServer, tmp_path: Path, monkeypatch, caplog, trouble: str
) -> None:
    monkeypatch.setattr(tracking, "INIT_SECONDS", 2.0)
    if trouble == "no server":
        monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    elif trouble == "wrong key":
        server.key = "b" * 40
    else:
        monkeypatch.setenv("WANDB_API_KEY", "abc")
    tracker = Tracker(tmp_path)
    with caplog.at_level(logging.WARNING):
        results = [run(tracker, seed=seed, budget__max_steps=2) for seed in (1, 2)]
    messages = [record.message for record in caplog.records if record.name == tracking.__name__]
    assert len(messages) == 1
    assert messages[0].startswith("W&B cannot be reached, runs are logged offline: ")
    for result in results:
        assert len(list(tmp_path.glob(f"wandb/offline-run-*-{result['id']}/*.wandb"))) == 1
    assert server.runs == {}


def test_a_server_that_dies_meanwhile_costs_a_bounded_time_and_no_result(
    server: WandbServer, tmp_path: Path, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(tracking, "FINISH_SECONDS", 2.0)
    tracker = Tracker(tmp_path)
    start = tracker.start

    def started(*words: Any, **named: Any) -> Any:
        tracked = start(*words, **named)
        server.dead = True
        return tracked

    monkeypatch.setattr(tracker, "start", started)
    with caplog.at_level(logging.WARNING):
        results = [run(tracker, seed=seed, budget__max_steps=2) for seed in (1, 2)]
    assert all((tmp_path / result["id"] / "result.json").is_file() for result in results)
    messages = [record.message for record in caplog.records if record.name == tracking.__name__]
    assert len(messages) == 1
    assert messages[0].startswith("W&B failed, later runs are logged offline: ")
    assert len(list(tmp_path.glob(f"wandb/offline-run-*-{results[1]['id']}/*.wandb"))) == 1

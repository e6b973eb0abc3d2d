"""The real `wandb sweep` and `wandb agent` on a grid file, and `ablate sweep` on the same one."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ablations import cli
from ablations.config import flatten
from ablations.ledger import load
from ablations.plan import make_plan
from ablations.queue import Queue
from ablations.run import run_cell
from ablations.study import load_study
from ablations.worker import queue_file, work
from tests.ablations.tiny import TINY
from tests.ablations.wandb_server import WandbServer

ROOT = Path(__file__).parents[2]
WANDB = Path(sys.executable).parent / "wandb"


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The grid of the root file over fewer axes and smaller models; `ablate` is on the PATH."""
    content = yaml.safe_load((ROOT / "sweep.yaml").read_text())
    axes = {"design.norm_position": {"values": ["pre", "post"]}, "seed": {"values": [1, 2]}}
    content["parameters"] = {**axes, **{path: {"value": value} for path, value in TINY.items()}}
    file, command = tmp_path / "sweep.yaml", tmp_path / "bin" / "ablate"
    file.write_text(yaml.safe_dump(content))
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ablations.cli "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("WANDB_PROJECT", "ablations")
    monkeypatch.setenv("WANDB_SILENT", "false")
    monkeypatch.chdir(tmp_path)
    return file


def start(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([WANDB, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.mark.skipif(
    "ABLATIONS_CHAOS" not in os.environ, reason="takes minutes; ABLATIONS_CHAOS=1 runs it"
)
def test_a_sweep_begun_by_an_agent_is_ended_by_the_local_queue(
    grid: Path, server: WandbServer
) -> None:
    cells = make_plan(load_study(str(grid))).cells
    out, _ = start("sweep", str(grid)).communicate(timeout=120)
    assert b"wandb agent me/" in out
    agent = start("agent", "me/ablations/sweep1")
    runs = Path("runs")
    server.wait(lambda: len(list(runs.glob("*/result.json"))) == 1, seconds=120)
    server.wait(lambda: len(server.runs) == 2, seconds=120)  # the second cell trains
    agent.send_signal(signal.SIGKILL)
    agent.communicate()
    # The agent's child goes on by itself: both doors then run the same cell.
    Queue(queue_file(runs, "sweep"), name="sweep").fill(
        make_plan(load_study(str(grid))).missing(runs)
    )
    assert work("sweep", runs, wandb=True) == 0
    server.wait(lambda: all(run["state"] == "finished" for run in server.runs.values()))
    ledger = load(runs)
    assert ledger.problems == []
    assert sorted(ledger.frame["run"].unique()) == sorted(cell.id for cell in cells)
    for name in ("run0", "run1"):
        found = server.runs[name]
        assert found["sweep"] == "sweep1"
        assert found["config"]["run"]["value"] in {cell.id for cell in cells}
    # A later agent meets cells that are done: its runs get their results, and nothing is trained.
    times = {file: file.stat().st_mtime_ns for file in runs.glob("*/result.json")}
    out, _ = start("agent", "--count", "1", "me/ablations/sweep1").communicate(timeout=120)
    found = server.runs["run2"]
    identity = found["config"]["run"]["value"]
    record = json.loads((runs / identity / "result.json").read_text())
    assert found["summary"]["status"] == "finished"
    assert found["summary"]["bleu"] == pytest.approx(
        next(r["value"] for r in record["metrics"] if (r["split"], r["metric"]) == ("test", "bleu"))
    )
    assert [row["step"] for row in found["history"] if "train/loss" in row] == [*range(1, 11)]
    assert {file: file.stat().st_mtime_ns for file in runs.glob("*/result.json")} == times


def test_a_cell_that_is_done_is_given_to_the_sweep_that_asks_for_it(
    grid: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = make_plan(load_study(str(grid))).cells[0]
    run_cell(cell.config, runs_dir=Path("runs"), cache_dir=Path("runs/.cache"))
    monkeypatch.setenv("WANDB_SWEEP_ID", "sweep1")
    monkeypatch.setenv("WANDB_RUN_ID", "run0")
    Path("cell.json").write_text(json.dumps(flatten(cell.config)))
    assert cli.main(["run", "--config", "cell.json"]) == 0
    [(name, found)] = server.runs.items()
    assert (name, found["sweep"]) == ("run0", "sweep1")
    assert found["config"]["run"]["value"] == cell.id
    assert found["summary"]["status"] == "finished"
    assert [row["step"] for row in found["history"] if "train/loss" in row] == [*range(1, 11)]

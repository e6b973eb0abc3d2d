"""`ablate wandb push` and `pull`, against a stand-in of the server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ablations.ledger import load
from ablations.plan import Cell, make_plan
from ablations.run import run_cell
from ablations.study import load_study
from tests.ablations.tiny import TINY
from tests.ablations.wandb_server import WandbServer

Ablate = Callable[..., tuple[int, str, str]]
STUDY = f"""
base: {json.dumps({**TINY, "budget.max_steps": 3})}
axes: {{design.norm_position: [pre, post]}}
"""


@pytest.fixture
def cells(ablate: Ablate) -> list[Cell]:
    """The cells of tiny.yaml, the first one with a result."""
    Path("tiny.yaml").write_text(STUDY)
    found = make_plan(load_study("tiny.yaml")).cells
    run_here(found[0])
    return found


def run_here(cell: Cell) -> dict[str, Any]:
    return run_cell(cell.config, runs_dir=Path("runs"), cache_dir=Path("runs/.cache"))


def test_pushed_twice_a_result_is_there_once(
    ablate: Ablate, cells: list[Cell], server: WandbServer
) -> None:
    log = Path(f"runs/wandb/offline-run-20260101_000000-{cells[0].id}/run-{cells[0].id}.wandb")
    log.parent.mkdir(parents=True)
    log.write_bytes(b":W&B\xa3\x00\x01")
    code, out, _ = ablate("wandb", "push", "tiny.yaml")
    assert code == 0
    assert out.splitlines() == [
        f"left out: {log} is broken; what W&B gets is the run's own record",
        "tiny: 1 sent, 0 were there, 1 cells have no result yet",
    ]
    log.unlink()
    [(identity, found)] = server.runs.items()
    assert identity == cells[0].id
    assert (found["groupName"], found["displayName"]) == ("tiny", "baseline seed=1")
    assert [row["step"] for row in found["history"] if "train/loss" in row] == [1, 2, 3]
    assert any("images/attention/encoder" in name for name in found["files"])
    rows = len(found["history"])
    run_here(cells[1])
    assert ablate("wandb", "push", "tiny.yaml")[1] == "tiny: 1 sent, 1 were there\n"
    assert ablate("wandb", "push", "tiny.yaml")[1] == "tiny: 0 sent, 2 were there\n"
    assert len(found["history"]) == rows
    assert len(server.runs) == 2


def test_what_was_killed_online_is_completed(
    ablate: Ablate, cells: list[Cell], server: WandbServer
) -> None:
    [_, *rows] = (Path("runs") / cells[0].id / "learning_curve.csv").read_text().splitlines()
    first = rows[0].split(",")
    history = [{"step": 1, "train/loss": float(first[1]), "lr": float(first[2])}]
    server.runs[cells[0].id] = {
        "config": {},
        "files": {},
        "state": "crashed",
        "summary": history[0],
    }
    server.runs[cells[0].id]["history"] = history
    assert ablate("wandb", "push", "tiny.yaml")[1].startswith("tiny: 1 sent, 0 were there")
    found = server.runs[cells[0].id]
    assert [row["step"] for row in found["history"] if "train/loss" in row] == [1, 2, 3]
    assert found["summary"]["status"] == "finished"


def test_pulled_results_are_those_that_were_pushed(
    ablate: Ablate, cells: list[Cell], server: WandbServer
) -> None:
    run_here(cells[1])
    ablate("wandb", "push", "tiny.yaml")
    code, out, _ = ablate("wandb", "pull", "tiny.yaml", "--runs=elsewhere")
    assert (code, out) == (0, "tiny: 2 fetched, 0 were here, 0 still missing\n")
    assert load("elsewhere").frame.equals(load("runs").frame)
    for cell in cells:
        here, there = (
            Path(name) / cell.id / "learning_curve.csv" for name in ("runs", "elsewhere")
        )
        assert here.read_bytes() == there.read_bytes()
    out = ablate("wandb", "pull", "tiny.yaml", "--runs=elsewhere")[1]
    assert out == "tiny: 0 fetched, 2 were here, 0 still missing\n"


def test_pull_without_a_study_fetches_every_run_of_the_project(
    ablate: Ablate, cells: list[Cell], server: WandbServer
) -> None:
    run_here(cells[1])
    ablate("wandb", "push", "tiny.yaml")
    other = {"config": {}, "files": {}, "history": [], "state": "finished", "summary": {}}
    server.runs["somebody-elses"] = other
    out = ablate("wandb", "pull", "--runs=elsewhere")[1]
    assert out == "transformer-ablations: 2 fetched, 0 were here\n"
    assert load("elsewhere").frame.equals(load("runs").frame)
    assert ablate("wandb", "pull")[1] == "transformer-ablations: 0 fetched, 2 were here\n"
    code, _, error = ablate("wandb", "push")
    assert (code, error) == (
        2,
        "ablate: wandb push: name a study; only pull goes without one\n",
    )


def test_an_edited_record_is_not_pulled(
    ablate: Ablate, cells: list[Cell], server: WandbServer
) -> None:
    files = {n: (Path("runs") / cells[0].id / n).read_bytes() for n in ("learning_curve.csv",)}
    record = json.loads((Path("runs") / cells[0].id / "result.json").read_text())
    record["config"]["optim"]["lr"] = 1.0
    files["result.json"] = json.dumps(record).encode()
    for run, status in (("sweeprun", "finished"), (cells[1].id, None)):
        server.runs[run] = {"config": {}, "files": files, "history": [], "state": "finished"}
        server.runs[run]["summary"] = {} if status is None else {"status": status}
    server.runs["sweeprun"]["config"] = {"run": {"value": cells[0].id}}
    code, out, error = ablate("wandb", "pull", "tiny.yaml", "--runs=elsewhere")
    assert code == 1
    assert f"left out: run {cells[0].id} at W&B: config or data belong to run" in error
    assert f"left out: run {cells[1].id} at W&B has no result yet" in out
    assert not Path("elsewhere").exists()


def test_without_a_key_it_says_so(
    ablate: Ablate, cells: list[Cell], server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = "b" * 40
    code, _, error = ablate("wandb", "push", "tiny.yaml")
    assert code == 2
    assert error.count("\n") == 1
    assert "WANDB_API_KEY" in error


def test_there_must_be_something_to_push(ablate: Ablate, server: WandbServer) -> None:
    code, _, error = ablate("wandb", "push", "tiny.yaml")
    assert code == 2
    assert error == "ablate: no results of tiny in runs; run the study first\n"

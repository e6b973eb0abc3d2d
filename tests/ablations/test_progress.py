"""What is seen of the cells that run now, on the terminal and from another shell."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ablations import callbacks
from ablations import progress as progress_module
from ablations.config import run_id
from ablations.plan import Cell
from ablations.progress import Progress, at_work
from ablations.queue import Queue
from ablations.worker import queue_file
from data.corpus import fingerprint
from lightning_modules.supervised import TokenModule
from tests.ablations.runs import config_of, run
from tests.ablations.tiny import tiny

CURVE = "step,train_loss,lr,validation_loss,seconds\n5,4.2,0.01,,1.0\n6,3.125,0.01,,1.2\n"


def cells(count: int) -> list[Cell]:
    configs = [tiny(seed=seed) for seed in range(1, count + 1)]
    ids = [run_id(config, fingerprint(config.data)) for config in configs]
    return [Cell(id=i, config=c, changes={}) for i, c in zip(ids, configs, strict=True)]


def begin(cell: Cell, runs_dir: Path) -> None:
    (runs_dir / cell.id).mkdir()
    (runs_dir / cell.id / "learning_curve.csv").write_text(CURVE)


def finish(cell: Cell, runs_dir: Path, *, seconds: float) -> None:
    (runs_dir / cell.id).mkdir()
    record = {"status": "diverged", "diverged_at_step": 7, "seconds": {"total": seconds}}
    (runs_dir / cell.id / "result.json").write_text(json.dumps(record))


def test_a_line_for_each_running_cell_and_the_pace(tmp_path: Path) -> None:
    begun, new, waiting, slow, fast = cells(5)
    begin(begun, tmp_path)
    workers = {begun.id: "host 11", new.id: "host 12", "cell of another plan": "host 13"}
    lines = [
        f"running on host 11: {begun.id} baseline seed=1: update 6 of 10, loss 3.125",
        f"running on host 12: {new.id} baseline seed=2: has just begun",
    ]
    everything = [begun, new, waiting, slow, fast]
    assert at_work(everything, tmp_path, workers) == lines
    finish(slow, tmp_path, seconds=90.0)
    finish(fast, tmp_path, seconds=30.0)
    assert at_work(everything, tmp_path, workers) == [*lines, "120 cells/h, 90 s left"]
    (tmp_path / slow.id / "result.json").write_text("{")
    assert at_work(everything, tmp_path, workers) == [*lines, "240 cells/h, 45 s left"]
    assert at_work(everything, tmp_path, {}) == []


def test_a_terminal_shows_a_bar_for_each_worker(tmp_path: Path, monkeypatch: Any) -> None:
    begun, new = cells(2)
    begin(begun, tmp_path)
    shown = io.StringIO()
    monkeypatch.setattr(
        progress_module,
        "Console",
        lambda **_: Console(file=shown, force_terminal=True, width=160, highlight=False),
    )
    with Progress([begun, new], runs_dir=tmp_path) as progress:
        assert progress.is_live
        running = {begun.id: "running", new.id: "running"}
        progress.update(running, {begun.id: "host 11", new.id: "host 12"})
        tasks = [(task.description, task.completed, task.total) for task in progress._bar.tasks]
        assert tasks[1:] == [
            (f"host 11: {begun.id} baseline seed=1, loss 3.125", 6, 10),
            (f"host 12: {new.id} baseline seed=2", 0, 10),
        ]
        finish(new, tmp_path, seconds=1.0)
        progress.update({begun.id: "running"}, {begun.id: "host 11", new.id: "host 12"})
        assert [task.completed for task in progress._bar.tasks] == [1, 6]
    assert "loss 3.125" in shown.getvalue()
    assert f"[1/2] diverged at step 7: {new.id}" in shown.getvalue()


def test_without_a_terminal_there_are_only_lines(tmp_path: Path, capsys: Any) -> None:
    (cell,) = cells(1)
    with Progress([cell], runs_dir=tmp_path) as progress:
        assert not progress.is_live
        progress.update({cell.id: "running"}, {cell.id: "host 11"})
    assert capsys.readouterr() == ("", "")


def test_the_status_says_who_runs_what(ablate, tmp_path: Path) -> None:
    from ablations.plan import make_plan
    from ablations.study import load_study

    plan = make_plan(load_study(str(tmp_path / "tiny.yaml")))
    queue = Queue(queue_file(tmp_path / "runs", "tiny"), name="tiny")
    queue.fill(plan.cells)
    claim = queue.claim("host")
    assert claim is not None
    code, out, _ = ablate("status", "tiny.yaml")
    assert code == 0
    assert "1 running, 5 waiting" in out
    assert f": {claim.id} " in out
    assert "has just begun" in out
    assert "running on host " in out


@pytest.mark.parametrize("seconds", [0.0, 3600.0])
def test_the_curve_of_a_run_can_be_read_while_it_trains(
    seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks, "SHOW_SECONDS", seconds)
    seen: list[int] = []
    step = TokenModule.training_step

    def training_step(self: Any, batch: Any, batch_index: int) -> Any:
        files = list(tmp_path.glob("*/learning_curve.csv"))
        seen.append(len(files[0].read_text().splitlines()) if files else 0)
        return step(self, batch, batch_index)

    monkeypatch.setattr(TokenModule, "training_step", training_step)
    run(config_of("sequences", optim__accumulate=1, budget__max_steps=4), tmp_path)
    assert seen == ([0, 2, 3, 4] if seconds == 0 else [0, 2, 2, 2])

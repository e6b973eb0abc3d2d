"""Workers of one machine: killed, interrupted, failing."""

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from optuna.trial import TrialState

from ablations import launch as launch_module
from ablations import run as run_module
from ablations import worker as worker_module
from ablations.attempts import RETRIES
from ablations.config import run_id
from ablations.launch import launch
from ablations.plan import Cell
from ablations.progress import Progress
from ablations.queue import Queue
from ablations.stopping import Stop
from ablations.worker import LEFT, RENEW, queue_file, work
from data.translation import fingerprint
from tests.ablations.tiny import tiny

fork = multiprocessing.get_context("fork")  # a new process would import torch once more


def cells(count: int) -> list[Cell]:
    configs = [tiny(seed=seed, budget__max_steps=60) for seed in range(1, count + 1)]
    return [
        Cell(id=run_id(config, fingerprint(config.data)), config=config, changes={})
        for config in configs
    ]


def open_queue(runs_dir: Path) -> Queue:
    return Queue(queue_file(runs_dir, "test"), name="test")


def results(runs_dir: Path) -> dict[str, int]:
    """The finished cells, and when their results were written."""
    return {f.parent.name: f.stat().st_mtime_ns for f in runs_dir.glob("*/result.json")}


def wait_until(condition: Callable[[], Any], seconds: float = 180) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)
    return found


def running_workers(runs_dir: Path) -> list[int]:
    """The processes that run a cell now."""
    trials = open_queue(runs_dir)._study.get_trials(states=(TrialState.RUNNING,))
    return [int(t.user_attrs["worker"].split()[1]) for t in trials if "worker" in t.user_attrs]


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch) -> Iterator[Callable[[int], multiprocessing.Process]]:
    """Starts the sweep of six cells in a process of its own; what it says goes to `said.txt`."""
    monkeypatch.setattr(launch_module, "usable_cores", lambda: 1)  # others test here, too
    started: list[Any] = []

    def run(workers: int) -> None:
        with (tmp_path / "said.txt").open("w") as sys.stdout:
            launch(cells(6), name="test", runs_dir=tmp_path, workers=workers, wandb=False)

    def start(workers: int) -> Any:
        process = fork.Process(target=run, args=(workers,))
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.join()


def test_a_killed_worker_loses_nothing(sweep, tmp_path: Path) -> None:
    process = sweep(2)
    victim = wait_until(lambda: running_workers(tmp_path))[0]
    os.kill(victim, signal.SIGKILL)
    process.join()
    assert process.exitcode == 0
    said = (tmp_path / "said.txt").read_text()
    assert f"worker {victim} was killed by signal 9" in said
    assert "back in the queue" in said
    assert set(results(tmp_path)) == {cell.id for cell in cells(6)}
    assert open_queue(tmp_path).states() == {}


def test_an_interrupted_sweep_goes_on_with_the_missing_cells_only(sweep, tmp_path: Path) -> None:
    process = sweep(1)
    wait_until(lambda: results(tmp_path))
    [worker] = wait_until(lambda: running_workers(tmp_path))
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 1
    assert not Path(f"/proc/{worker}").exists()
    assert list(tmp_path.glob("*/failure-*.txt")) == []
    before = results(tmp_path)
    missing = [cell for cell in cells(6) if cell.id not in before]
    assert missing
    assert open_queue(tmp_path).states() == {cell.id: "waiting" for cell in missing}
    launch(missing, name="test", runs_dir=tmp_path, workers=1, wandb=False)
    after = results(tmp_path)
    assert set(after) == {cell.id for cell in cells(6)}
    assert {cell_id: after[cell_id] for cell_id in before} == before
    resumed = [json.loads((tmp_path / c / "result.json").read_text())["resumed"] for c in after]
    assert sum(resumed) <= 1  # none where the worker was just between two cells
    assert list(tmp_path.glob("*/checkpoint.pt")) == []


def test_a_cell_that_raises_is_tried_again_and_its_tracebacks_kept(
    tmp_path: Path, monkeypatch
) -> None:
    good, bad = cells(2)

    def run_cell(config: Any, **_: Any) -> dict[str, Any]:
        if config.seed == bad.config.seed:
            raise RuntimeError("out of luck")
        return {"status": "finished", "seconds": {"total": 1.0}, "metrics": []}

    monkeypatch.setattr(run_module, "run_cell", run_cell)
    open_queue(tmp_path).fill([bad, good])
    assert work("test", tmp_path, wandb=False) == 0
    failures = sorted(path.name for path in (tmp_path / bad.id).iterdir())
    assert failures == [f"failure-{n}.txt" for n in range(1, RETRIES + 2)]
    assert "RuntimeError: out of luck" in (tmp_path / bad.id / "failure-1.txt").read_text()
    assert not (tmp_path / good.id).exists()
    assert open_queue(tmp_path).states() == {}


def test_a_worker_with_a_spoiled_gpu_asks_to_be_replaced(tmp_path: Path, monkeypatch) -> None:
    def run_cell(config: Any, **_: Any) -> dict[str, Any]:
        raise torch.AcceleratorError("device-side assert triggered")

    monkeypatch.setattr(run_module, "run_cell", run_cell)
    open_queue(tmp_path).fill(cells(2))
    assert work("test", tmp_path, wandb=False) == RENEW
    assert set(open_queue(tmp_path).states().values()) == {"waiting"}


def test_a_worker_that_asks_for_it_is_replaced_and_one_that_dies_is_not(tmp_path: Path) -> None:
    marker = tmp_path / "started"
    script = (
        "import pathlib, sys; m = pathlib.Path(sys.argv[1]); first = not m.exists(); m.touch();"
        f"sys.exit({RENEW} if first else 3)"
    )
    worker = launch_module.Worker(
        [sys.executable, "-c", script, str(marker)],
        log=tmp_path / "log",
        environment=dict(os.environ),
    )
    said: list[str] = []
    progress = Progress([], runs_dir=tmp_path)
    progress.say = said.append  # type: ignore[method-assign]
    team = [worker]

    def all_have_ended() -> bool:
        launch_module._renew(team, progress, Stop())
        return not team

    wait_until(all_have_ended)
    assert "is replaced" in said[0]
    assert "ended with exit code 3" in said[1]
    assert len(said) == 2


def test_lines_say_what_ended_and_what_failed(tmp_path: Path, capsys) -> None:
    finished, diverged, failed = cells(3)
    metrics = [{"split": "test", "length": None, "metric": "bleu", "value": 12.345}]
    for cell, status in ((finished, "finished"), (diverged, "diverged")):
        folder = tmp_path / cell.id
        folder.mkdir()
        result = {"status": status, "diverged_at_step": 7, "seconds": {"total": 61.2}}
        (folder / "result.json").write_text(json.dumps({**result, "metrics": metrics}))
    (tmp_path / failed.id).mkdir()
    (tmp_path / failed.id / "failure-1.txt").write_text("old\n")
    with Progress([finished, diverged, failed], runs_dir=tmp_path) as progress:
        file = tmp_path / failed.id / "failure-2.txt"
        file.write_text("Traceback\nRuntimeError: out of luck\n")
        progress.update({failed.id: "running"})  # it is just about to be given up, or not
        progress.update({failed.id: "waiting"})
        progress.update({})
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"[1/3] finished: {finished.id} baseline seed=1, 61 s, test bleu 12.35",
        f"[2/3] diverged at step 7: {diverged.id} baseline seed=2, 61 s",
        f"failed, runs again: {failed.id} baseline seed=3: RuntimeError: out of luck ({file})",
    ]


def test_a_failure_is_given_up_only_where_the_cell_does_not_run_again(
    tmp_path: Path, capsys
) -> None:
    again, over, done = cells(3)
    with Progress([again, over, done], runs_dir=tmp_path) as progress:
        for cell in (again, over, done):
            (tmp_path / cell.id).mkdir()
            (tmp_path / cell.id / "failure-1.txt").write_text("RuntimeError: out of luck\n")
        progress.update({cell.id: "running" for cell in (again, over, done)})
        assert capsys.readouterr().out == ""
        result = {"status": "diverged", "diverged_at_step": 7, "seconds": {"total": 1.0}}
        (tmp_path / done.id / "result.json").write_text(json.dumps(result))
        progress.update({again.id: "waiting"})
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "failed, runs again",
        "failed, given up",
        "failed, runs again",
        "[1/3] diverged at step 7",
    ]


def test_a_worker_ends_with_its_launcher(monkeypatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(worker_module.os, "_exit", ended.append)
    monkeypatch.setattr(worker_module, "LEAVE_SECONDS", 0.5)
    stop = Stop()
    worker_module._end_with(os.getpid(), stop)  # not the parent of this process
    wait_until(lambda: stop.asked, seconds=5)
    assert ended == []
    wait_until(lambda: ended == [1], seconds=5)


def test_a_worker_that_is_asked_to_stop_gives_its_cell_back(tmp_path: Path, monkeypatch) -> None:
    stop = Stop()

    def run_cell(config: Any, **_: Any) -> dict[str, Any]:
        stop.ask()
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "run_cell", run_cell)
    for _ in range(RETRIES + 2):  # it counts as no failure
        open_queue(tmp_path).fill(cells(2))
        stop.asked = False
        assert work("test", tmp_path, wandb=False, stop=stop) == 0
        assert open_queue(tmp_path).states() == {cell.id: "waiting" for cell in cells(2)}


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_worker_whose_cells_all_fail_leaves_them_to_others(
    elsewhere: bool, tmp_path: Path, monkeypatch
) -> None:
    def run_cell(config: Any, **_: Any) -> dict[str, Any]:
        tried.append(config.seed)
        raise RuntimeError("no disk")

    tried: list[int] = []
    monkeypatch.setattr(run_module, "run_cell", run_cell)
    queue = open_queue(tmp_path)
    queue.fill(cells(5))
    claim = queue.claim("another machine" if elsewhere else worker_module.place())
    assert claim is not None
    code = None

    def end_the_other(seconds: float) -> None:
        queue.fail(claim)

    monkeypatch.setattr(worker_module.time, "sleep", end_the_other)
    code = work("test", tmp_path, wandb=False)
    assert code == (LEFT if elsewhere else 0)
    assert tried[:3] == [2, 3, 4]
    assert (len(tried) == 3) == elsewhere

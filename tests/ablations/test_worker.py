"""Workers that join a sweep from another shell or machine."""

import json
import multiprocessing
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from ablations import run as run_module
from ablations.config import RunConfig, run_id
from ablations.files import create_once
from ablations.plan import Cell
from ablations.queue import Queue
from ablations.worker import LEFT, RENEW, join, leaving, open_queue, queue_file

fork = multiprocessing.get_context("fork")


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else request.getfixturevalue("postgresql")


@pytest.fixture(autouse=True)
def quick_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell writes its result at once, seed 13 waits to be stopped, and seed 14 raises."""

    def run_cell(config: RunConfig, *, runs_dir: Path, stop: Any, **_: Any) -> dict[str, Any]:
        if config.seed == 14:
            raise RuntimeError("out of luck")
        if config.seed == 13:
            (runs_dir / "waits").touch()
            while not stop.asked:
                time.sleep(0.05)
            raise KeyboardInterrupt
        time.sleep(0.1)
        result = {
            "status": "finished",
            "seconds": {"total": 1.0},
            "metrics": [],
            "pid": os.getpid(),
        }
        written = create_once(runs_dir / run_id(config, "") / "result.json", json.dumps(result))
        assert written, "the cell had been run"
        return result

    monkeypatch.setattr(run_module, "run_cell", run_cell)


def cells(*seeds: int) -> list[Cell]:
    configs = [RunConfig(seed=seed) for seed in seeds]
    return [Cell(id=run_id(config, ""), config=config, changes={}) for config in configs]


def test_workers_that_join_share_the_cells(storage: str | None, tmp_path: Path) -> None:
    wanted = cells(*range(1, 9))
    open_queue("test", tmp_path, storage=storage).fill(wanted)
    workers = [
        fork.Process(
            target=join, args=("test", tmp_path), kwargs={"wandb": False, "storage": storage}
        )
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    results = [json.loads((tmp_path / cell.id / "result.json").read_text()) for cell in wanted]
    assert {result["pid"] for result in results} == {worker.pid for worker in workers}
    assert open_queue("test", tmp_path, storage=storage).states() == {}


def test_a_worker_says_what_became_of_its_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = cells(1, 14)
    open_queue("test", tmp_path, storage=None).fill([good, bad])
    assert join("test", tmp_path, wandb=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"finished: {good.id} baseline seed=1, 1 s, "
    failed = f"{bad.id} baseline seed=14: RuntimeError: out of luck ({tmp_path / bad.id}/failure-"
    assert [line.partition(failed)[0] for line in lines[1:-1]] == [
        "failed, runs again: ",
        "failed, runs again: ",
        "failed, given up: ",
    ]
    ended = "test: no cell waits or runs; 'ablate status test' says how they ended"
    assert lines[-1] == ended
    assert join("test", tmp_path, wandb=False) == 0
    assert capsys.readouterr().out == ended + "\n"


def test_a_study_that_is_not_there_is_refused(storage: str | None, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no study 'other' in .*; it holds none; 'ablate sweep'"):
        join("other", tmp_path, wandb=False, storage=storage)
    assert list(tmp_path.glob("**/*.sqlite")) == []
    open_queue("test", tmp_path, storage=storage).fill(cells(1))
    if storage is None:
        shutil.copy(queue_file(tmp_path, "test"), queue_file(tmp_path, "other"))
    with pytest.raises(ValueError, match=r"no study 'other' in .*; there are test; 'ablate sweep'"):
        join("other", tmp_path, wandb=False, storage=storage)


def test_the_folder_of_another_sweep_is_refused(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/a.sqlite"
    open_queue("test", tmp_path / "one", storage=storage).fill(cells(1))
    with pytest.raises(ValueError, match=r"is that of another folder of runs than .*two; name"):
        join("test", tmp_path / "two", wandb=False, storage=storage)
    assert join("test", tmp_path / "one", wandb=False, storage=storage) == 0
    shutil.copytree(tmp_path / "one", tmp_path / "moved")
    assert join("test", tmp_path / "moved", wandb=False, storage=storage) == 0


def test_ctrl_c_gives_the_cell_back(tmp_path: Path) -> None:
    def work() -> None:
        try:
            join("test", tmp_path, wandb=False)
        except KeyboardInterrupt:
            os._exit(130)

    queue = Queue(queue_file(tmp_path, "test"), name="test")
    queue.fill(cells(13, 2))
    process = fork.Process(target=work)
    process.start()
    assert process.pid is not None
    while not (tmp_path / "waits").exists():
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    assert queue.states() == {cell.id: "waiting" for cell in cells(13, 2)}


def test_why_a_worker_has_ended() -> None:
    assert leaving(RENEW) == "has to be started anew: its GPU refuses further work"
    assert leaving(LEFT) == "left: 3 cells failed there in a row, while others work elsewhere"
    assert leaving(-9) == "was killed by signal 9"
    assert leaving(1) == "ended with exit code 1"


def test_the_command(ablate, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def join(*words: Any, **options: Any) -> int:
        calls.append((*map(str, words), options))
        return 0

    monkeypatch.setattr("ablations.worker.join", join)
    assert ablate("worker", "tiny", "--study", "sqlite:///a", "--runs=b", "--no-wandb")[0] == 0
    assert ablate("worker", "tiny", "--storage=sqlite:///a")[0] == 0
    assert ablate("worker", "tiny", "--devices-per-cell=2")[0] == 0
    assert calls == [
        ("tiny", "b", {"wandb": False, "storage": "sqlite:///a", "devices": 1}),
        ("tiny", "runs", {"wandb": True, "storage": "sqlite:///a", "devices": 1}),
        ("tiny", "runs", {"wandb": True, "storage": None, "devices": 2}),
    ]
    code, _, said = ablate("worker")
    assert code == 2
    assert said == "ablate: the following arguments are required: NAME\n"

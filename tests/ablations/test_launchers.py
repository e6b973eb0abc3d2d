"""Workers that Ray and Slurm place; what stands in for a cluster is this machine."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ablations.launch import launch
from ablations.launchers.order import LAUNCHERS, Order, check_shared, engine
from ablations.ledger import load
from ablations.plan import make_plan
from ablations.queue import Queue
from ablations.study import load_study
from ablations.worker import TIME_UP, queue_file
from tests.ablations.chaos import NAME, write_study
from tests.ablations.ray_cluster import ISOLATION

APART = ["unshare", *ISOLATION]
ENVIRONMENT = {
    "ABLATIONS_CHECKPOINT_SECONDS": "0.5",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # or the test takes minutes on a machine that has other work
}


def order(runs_dir: Path, **changes: Any) -> Order:
    options = {"storage": None, "wandb": False, "devices": 1}
    return Order(name=NAME, runs_dir=runs_dir, **{**options, **changes})


def check_complete(study: Path, runs_dir: Path) -> None:
    """Each cell has a result, and nothing waits or runs."""
    ledger = load(runs_dir)
    assert ledger.problems == []
    wanted = {cell.id for cell in make_plan(load_study(str(study))).cells}
    assert set(ledger.frame["run"]) == wanted
    assert Queue(queue_file(runs_dir, NAME), name=NAME).states() == {}
    assert list(runs_dir.glob("*/failure-*.txt")) == []


@pytest.mark.parametrize(("launcher", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_package_that_is_missing_is_named_before_data_are_read(
    launcher: str, package: str, ablate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else find(name)
    )
    code, _, said = ablate("sweep", "tiny.yaml", "--launcher", launcher)
    assert code == 2
    assert said == (
        f"ablate: --launcher {launcher} needs {package}; install it with: "
        f"pip install 'transformer-ablations[{launcher}]'\n"
    )
    assert not Path("runs").exists()


def test_another_launcher_is_refused(ablate: Any) -> None:
    code, _, said = ablate("sweep", "tiny.yaml", "--launcher", "dask")
    assert code == 2
    assert "'dask'" in said
    assert all(launcher in said for launcher in LAUNCHERS)


@pytest.mark.parametrize("storage", [None, "sqlite:///a.sqlite"])
def test_several_machines_need_a_database(storage: str | None) -> None:
    check_shared(storage, launcher="ray", machines=1)
    check_shared("postgresql://a@b/c", launcher="ray", machines=2)
    with pytest.raises(ValueError, match=r"^--launcher ray has 2 machines, .* is a SQLite file, "):
        check_shared(storage, launcher="ray", machines=2)


@pytest.fixture
def slurm() -> Any:
    """The engine, where its package is there."""
    pytest.importorskip("submitit")
    return engine("slurm")


def test_jobs_work_to_the_end(
    slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By submitit's local executor, whose jobs are processes of this machine."""
    asked: list[dict[str, Any]] = []

    class Local(slurm.submitit.LocalExecutor):
        def update_parameters(self, **options: Any) -> None:
            asked.append(options)
            super().update_parameters(timeout_min=10, setup=options["setup"])

    monkeypatch.setattr(slurm.submitit, "SlurmExecutor", Local)
    monkeypatch.setattr(slurm, "_nodes", lambda: {("here", "(null)")})
    monkeypatch.setattr(slurm.SlurmWorker, "_is_listed", lambda worker: True)
    study = write_study(tmp_path, cells=4, updates=4)
    cells = make_plan(load_study(str(study))).cells
    launch(cells, name=NAME, runs_dir=tmp_path, workers=2, wandb=False, launcher="slurm")
    assert capsys.readouterr().out.count("finished: ") == 4
    check_complete(study, tmp_path)
    assert len(list((tmp_path / "studies" / f"{NAME}.jobs").glob("*_result.pkl"))) == 2
    assert [(o["cpus_per_task"], o["gpus_per_node"], o["time"]) for o in asked] == [(1, None, None)]


def test_a_warned_job_asks_for_another_place_and_a_cancelled_one_does_not(
    slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    def work(_: Order) -> int:
        assert "SLURM_NTASKS" not in os.environ
        os.kill(os.getpid(), signals.pop())
        signal.pause()  # the warning becomes the signal that a worker stops at
        raise AssertionError

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    monkeypatch.setattr(Order, "work", work)
    monkeypatch.setenv("SLURM_NTASKS", "1")
    signal.signal(signal.SIGTERM, interrupt)
    signals = [signal.SIGTERM, signal.SIGUSR2]
    assert slurm.work_in_job(order(tmp_path)) == TIME_UP
    assert slurm.work_in_job(order(tmp_path)) == 0
    for number, handler in before.items():
        signal.signal(number, handler)


def test_what_slurm_is_asked(slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that stand in for Slurm's: GPUs, a job that vanishes, and how one is cancelled."""
    said = tmp_path / "said"
    nodes = "debug* a (null)\\ndebug* b gpu:4\\nother c gpu:8\\n"
    programs = {
        "sinfo": f"printf '{nodes}'",
        "squeue": f"cat {tmp_path}/listed",
        "scancel": f'echo "$@" >> {said}',
        "sbatch": "true",
        "srun": "true",
    }
    for name, line in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert slurm._nodes() == {("a", "(null)"), ("b", "gpu:4")}
    with pytest.raises(ValueError, match=r"--launcher slurm has 2 machines"):
        slurm.check(None)
    paths = SimpleNamespace(result_pickle=tmp_path / "result", stderr="log")
    job = SimpleNamespace(job_id="17", paths=paths, result=lambda: TIME_UP)
    worker = slurm.SlurmWorker(order(tmp_path), SimpleNamespace(submit=lambda *_: job))
    monkeypatch.setattr(slurm, "LOOK_SECONDS", -1.0)
    (tmp_path / "listed").write_text("16\n17\n")
    assert [worker.poll() for _ in range(3)] == [None] * 3
    (tmp_path / "listed").write_text("16\n")
    assert [worker.poll() for _ in range(2)] == [None, 1]
    paths.result_pickle.touch()
    assert worker.poll() == TIME_UP
    worker.leave()
    worker.end()
    assert said.read_text().splitlines() == [
        "--state=PENDING 17",
        "--state=RUNNING --signal=TERM 17",
        "17",
    ]


def test_a_ray_node_that_is_killed_costs_no_cell(tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed (pip install 'transformer-ablations[ray]')")
    if shutil.which("unshare") is None or subprocess.run([*APART, "true"], check=False).returncode:
        pytest.skip("unshare --net, which gives Ray a network of its own, is not allowed here")
    study = write_study(tmp_path, cells=4, updates=150)
    words = [*APART, sys.executable, "-m", "tests.ablations.ray_cluster"]
    done = subprocess.run(
        [*words, str(study), str(tmp_path / "runs")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **ENVIRONMENT},
        cwd=Path(__file__).parents[2],
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "a node was killed while two cells ran" in done.stdout
    assert "back in the queue, its worker died" in done.stdout
    check_complete(study, tmp_path / "runs")

"""Cores and GPUs shared out among workers, and several cells on a GPU: on GPUs not there."""

import json
from pathlib import Path

import pytest

from ablations import launch as launch_module
from ablations import packing
from ablations.cli import main
from ablations.launch import usable_cores, usable_gpus, worker_environment
from ablations.packing import packed_workers
from ablations.run import run_cell
from tests.ablations.runs import config_of

GIB = 2**30
HERE = {"devices": 1, "launcher": "local"}


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of 24 GiB, and 40 cores."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    monkeypatch.setattr(packing, "usable_cores", lambda: 40)
    monkeypatch.setattr(packing, "gpu_memory", lambda: ("a card", 24 * GIB))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Three runs of a study; what they were measured on is told by `measured`."""
    folder = tmp_path_factory.mktemp("runs")
    configs = [config_of("sequences", seed=seed, budget__max_steps=1) for seed in (1, 2, 3)]
    results = [run_cell(one, runs_dir=folder, cache_dir=folder / ".cache") for one in configs]
    return folder, [result["id"] for result in results]


def measured(folder: Path, cell_id: str, hardware: str, peak: float | None) -> None:
    file = folder / cell_id / "result.json"
    record = json.loads(file.read_text())
    record |= {"hardware": hardware, "peak_memory_bytes": peak and int(peak * GIB)}
    file.write_text(json.dumps(record))


@pytest.mark.usefixtures("gpus")
def test_every_gpu_gets_as_many_as_asked_for(tmp_path: Path) -> None:
    assert packed_workers(3, [], runs_dir=tmp_path, **HERE) == 6
    assert packed_workers(3, [], runs_dir=tmp_path, devices=2, launcher="local") == 3


@pytest.mark.usefixtures("gpus")
def test_as_many_as_fit_by_the_largest_peak_on_such_a_gpu(
    finished: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, ids = finished
    for cell_id, hardware, peak in zip(
        ids, ("a card", "a card", "another"), (1.0, 2.0, 9.0), strict=True
    ):
        measured(folder, cell_id, hardware, peak)
    # 0.9 · 24 over 1.2 · 2 and one more.
    assert packed_workers("auto", [*ids, "missing"], runs_dir=folder, **HERE) == 2 * 6
    measured(folder, ids[1], "a card", 30.0)
    assert packed_workers("auto", ids, runs_dir=folder, **HERE) == 2 * 1
    measured(folder, ids[1], "a card", 0.01)
    monkeypatch.setattr(packing, "usable_cores", lambda: 7)
    assert packed_workers("auto", ids, runs_dir=folder, **HERE) == 2 * 3


@pytest.mark.usefixtures("gpus")
def test_without_a_measured_run_there_is_no_guess(finished: tuple[Path, list[str]]) -> None:
    folder, ids = finished
    measured(folder, ids[0], "a card", None)
    measured(folder, ids[1], "another", 1.0)
    with pytest.raises(ValueError, match="none of this study was measured on a card; run one"):
        packed_workers("auto", ids[:2], runs_dir=folder, **HERE)


def test_what_cannot_be_packed_is_refused_before_data_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(["sweep", "demo", "--cells-per-device", "4"]) == 2
    assert "is 4, and no GPU can be used; on CPUs --workers says" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    with pytest.raises(ValueError, match="--launcher slurm gives each worker a place of its own"):
        packed_workers(4, [], runs_dir=tmp_path, devices=1, launcher="slurm")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cells-per-device", "0"], "'0' is not a whole number of 1 or more"),
        (["--cells-per-device", "2", "--workers", "3"], "not allowed with"),
    ],
)
def test_two_answers_and_no_cells_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "demo", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("2, 0", ["2", "0"]),
        ("0,-1,1", ["0"]),
        ("GPU-8a1b,MIG-7/1/0", ["GPU-8a1b", "MIG-7/1/0"]),
    ],
)
def test_gpus_are_those_that_cuda_sees(
    visible: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert usable_gpus() == names


def test_cores_and_gpus_are_shared_out(monkeypatch) -> None:
    monkeypatch.setattr(launch_module, "usable_cores", lambda: 8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    environments = [worker_environment(index, 3) for index in range(3)]
    assert [e["OMP_NUM_THREADS"] for e in environments] == ["2"] * 3
    assert [e["CUDA_VISIBLE_DEVICES"] for e in environments] == ["3", "5", "3"]
    pairs = [worker_environment(index, 3, devices=2) for index in range(3)]
    assert [e["CUDA_VISIBLE_DEVICES"] for e in pairs] == ["3,5"] * 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4")
    pairs = [worker_environment(index, 3, devices=2) for index in range(3)]
    assert [e["CUDA_VISIBLE_DEVICES"] for e in pairs] == ["0,1", "2,3", "0,1"]
    assert worker_environment(0, 100)["MKL_NUM_THREADS"] == "1"
    assert usable_cores() >= 1

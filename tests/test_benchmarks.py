"""The benchmarks run: what they measure is not asked here."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from ablations.run import run_cell
from tests.ablations.tiny import tiny

ROOT = Path(__file__).parents[1]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("runs")
    config = tiny(budget__max_steps=2, budget__validate_every=2)
    return folder, run_cell(config, runs_dir=folder, cache_dir=folder / ".cache")["id"]


def test_decoding_is_timed_and_compared(
    run: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark, (folder, identity) = load("decoding"), run
    found = benchmark.main(["--run", identity, "--runs", str(folder), "--repetitions", "2"])
    out = capsys.readouterr().out
    assert json.loads(out.splitlines()[-1]) == found
    assert found["sentences"] == 8
    assert found["tokens"]["greedy, with cache"] == found["tokens"]["greedy, without cache"] > 0
    assert all(len(times) == 2 and min(times) > 0 for times in found["wall_seconds"].values())
    assert "greedy, with cache" in out.splitlines()[2]
    assert "1.00 [1.00, 1.00]" in out.splitlines()[2]


def test_outputs_that_differ_end_it(run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark, (folder, identity) = load("decoding"), run
    searched = benchmark.DECODERS["greedy, with cache"]
    monkeypatch.setitem(
        benchmark.DECODERS,
        "greedy, without cache",
        lambda *words, **named: [[*row, 5] for row in searched(*words, **named)],
    )
    with pytest.raises(SystemExit, match="8 outputs differ with and without the cache"):
        benchmark.main(["--run", identity, "--runs", str(folder), "--repetitions", "1"])

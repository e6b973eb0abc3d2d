"""The benchmark of decoding runs: how fast anything is, is not asked here."""

import json
from pathlib import Path

import pytest

from ablations.run import run_cell
from benchmarks import decoding
from tests.ablations.tiny import tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("runs")
    config = tiny(budget__max_steps=2, budget__validate_every=2)
    return folder, run_cell(config, runs_dir=folder, cache_dir=folder / ".cache")["id"]


def test_decoding_is_timed_and_compared(
    run: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, identity = run
    found = decoding.main(["--run", identity, "--runs", str(folder), "--repetitions", "2"])
    out = capsys.readouterr().out
    assert json.loads(out.splitlines()[-1]) == found
    assert found["sentences"] == 8
    assert found["tokens"]["greedy, with cache"] == found["tokens"]["greedy, without cache"] > 0
    assert all(len(times) == 2 and min(times) > 0 for times in found["wall_seconds"].values())
    assert "greedy, with cache" in out.splitlines()[2]
    assert "1.00 [1.00, 1.00]" in out.splitlines()[2]


def test_outputs_that_differ_end_it(run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, identity = run
    searched = decoding.DECODERS["greedy, with cache"]
    monkeypatch.setitem(
        decoding.DECODERS,
        "greedy, without cache",
        lambda *words, **named: [[*row, 5] for row in searched(*words, **named)],
    )
    with pytest.raises(SystemExit, match="8 outputs differ with and without the cache"):
        decoding.main(["--run", identity, "--runs", str(folder), "--repetitions", "1"])

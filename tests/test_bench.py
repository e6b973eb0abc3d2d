"""All benchmarks by one command, and the one of workers. How fast anything is, is not asked."""

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch

import benchmarks.__main__ as bench
from benchmarks import workers
from tests.lightning_modules.designs import TINY

GOOD = """
import json, sys
print("a table")
print("{not json")
seconds = {"side by side, 1 thread each": [1, 2], "other": [2, 6]}
print(json.dumps({"wall_seconds": {"Tiny": seconds}}))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three benchmarks of its own: `python -m` looks there first."""
    (tmp_path / "benchmarks").mkdir()
    for name, code in {
        "workers": GOOD,
        "told": "print('read in 3 s')",
        "bad": "print(1); exit(3)",
    }.items():
        (tmp_path / "benchmarks" / f"{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "names", lambda: ["bad", "told", "workers"])
    return tmp_path


def test_each_is_run_shown_and_kept(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="failed: bad"):
        bench.main()
    out = capfd.readouterr().out
    kept = json.loads((folder / bench.KEPT).read_text())
    assert list(kept) == ["bad", "told", "workers"]
    assert kept["workers"]["found"]["wall_seconds"]["Tiny"]["other"] == [2, 6]
    assert kept["workers"]["printed"] == ["a table", "{not json"]
    assert kept["told"]["found"] is None
    assert all(one["wall_seconds"] > 0 and one["cpu_seconds"] > 0 for one in kept.values())
    assert "== told ==\nread in 3 s\n" in out
    assert '"wall_seconds"' not in out
    shown = {line.split()[0]: line for line in out.splitlines()[-6:] if line}
    assert shown["bad"].endswith("failed with exit code 3")
    assert shown["told"].endswith("read in 3 s")
    assert "Tiny: other 2.50 [2.00, 3.00] times side by side" in shown["workers"]


def test_json_of_another_form_does_not_cost_the_table() -> None:
    seconds = {"wall_seconds": 1.0, "cpu_seconds": 2.0, "exit_code": 0, "printed": []}
    found = {"ratio": {"cell_cpu": [1.0, 1.5, 2.0]}}
    table = bench.table({"tracking": {**seconds, "found": found}})
    assert "a cell with W&B 1.500 [1.000, 2.000] times without" in table
    table = bench.table({"tracking": {**seconds, "found": {}}})
    assert "another form than the table expects: KeyError('ratio')" in table


def test_a_gpu_is_asked_only_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for there in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert ("gpu_check" in bench.names()) is there
    names = bench.names()
    assert {*bench.WORDS, *bench.HEADLINES} <= set(names)
    assert not any(name.startswith("_") for name in names)


SMALL = workers.Size(TINY, vocabulary=50, rows=2, length=3, times=1)


class Process:
    """Runs nothing, and remembers how many updates were asked for."""

    def __init__(self, threads: int, asked: list[tuple[int, int]]) -> None:
        self.threads, self.asked = threads, asked

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: Any) -> None: ...

    def submit(self, train: Any, updates: int) -> Future[None]:
        assert train is workers._train
        self.asked.append((self.threads, updates))
        done: Future[None] = Future()
        done.set_result(None)
        return done


def test_both_ways_do_the_same_updates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(workers, "_process", lambda size, threads: Process(threads, asked))
    monkeypatch.setattr(workers, "SIZES", {"small": SMALL._replace(times=3)})
    monkeypatch.setattr(workers, "usable_cores", lambda: 2)
    found = workers.main(["--updates", "5", "--repetitions", "2"])
    out = capsys.readouterr().out
    assert asked == [(1, 6), (1, 6), (2, 6)] + 2 * [(1, 15), (1, 15), (2, 30)]
    assert json.loads(out.splitlines()[-1]) == found
    assert "1.00 [1.00, 1.00]" in out.splitlines()[2]
    assert out.splitlines()[3].endswith("at least 1.2")
    monkeypatch.setattr(workers, "usable_cores", lambda: 1)
    with pytest.raises(SystemExit, match=r"1 core\(s\) can be used, and this takes 2"):
        workers.main([])


def test_an_update_trains() -> None:
    threads = torch.get_num_threads()
    workers._prepare(SMALL, threads=1)
    weights = workers._Training.module.model.output_weight
    before = weights.detach().clone()
    workers._train(updates=2)
    torch.set_num_threads(threads)
    assert not torch.equal(weights, before)
    assert torch.isfinite(weights).all()

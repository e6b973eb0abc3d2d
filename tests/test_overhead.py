"""The benchmark of a sweep's overhead counts what is neither training nor evaluating."""

import json
import os
from pathlib import Path

import pytest

from ablations.plan import make_plan
from ablations.study import load_study
from benchmarks import overhead


def test_overhead_is_what_is_neither_trained_nor_evaluated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 1.0, 100.0, 150.0, 0.0, 2.5])

    def ablate(folder: Path, command: str, study: str, *words: str) -> str:
        plan = make_plan(load_study(str(folder / study)))
        if command == "plan":
            return "".join(f"    {cell.id}  seed 1  missing\n" for cell in plan.cells)
        assert words[-1] == "--workers=2"
        for index, cell in enumerate(plan.cells):
            run = folder / "runs" / cell.id
            run.mkdir(parents=True)
            seconds = {"train": 4.0 if folder.name == "tried" else 8.0, "evaluate": 2.0}
            end = 1000.0 + 11 * (index // 2 + 1) - 2 * (index == 7)  # the last one is faster
            for name, changed in {"config.json": 1000.0, "result.json": end}.items():
                (run / name).write_text(json.dumps({"seconds": seconds}))
                os.utime(run / name, (changed, changed))
        return ""

    monkeypatch.setattr(overhead, "_ablate", ablate)
    monkeypatch.setattr(overhead.time, "perf_counter", lambda: next(clock))
    found = overhead.main(["--cells", "8", "--seconds", "10", "--planned", "100"])
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == found
    assert (found["cells"], found["updates"]) == (8, 250)  # 100 updates took 4 seconds
    assert found["overhead"] == pytest.approx(1 - 8 * 10 / (2 * 50))
    assert (found["span"], found["idle"]) == pytest.approx((44, 2))
    assert found["later_overhead"] == pytest.approx(1 - 80 / (2 * 44 - 2))
    assert (found["plan"], found["planned"]) == (2.5, 192)

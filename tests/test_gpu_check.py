"""The check of a GPU, on a CPU: how fast anything is, is not asked here."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import (
    _parts,
    _to_bleu,
    gpu_check,
)
from lightning_modules.design import AXES, Dims
from tests.ablations.tiny import TINY

CPU = torch.device("cpu")


def made_here(measurements: gpu_check.Measurements) -> dict[str, dict[str, float]]:
    """What measurements find, without processes of their own."""

    class Here:
        until = math.inf

        def run(self, measurement: Callable[[], Any], *, count: int = 1) -> list[Any]:
            return [measurement() for _ in range(count)]

    return {name: measurement(Here()) for name, measurement in measurements.items()}


def test_shipped_attention_agrees_with_the_explicit_one_at_every_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu_check, "PRECISIONS", {"fp32": None})
    found = made_here(gpu_check.agreement(CPU))
    assert len(found) == 1 + sum(len(axis) - 1 for axis in AXES.values())
    for name, differences in found.items():
        assert list(differences) == ["fp32 states", "fp32 gradients"]
        assert max(differences.values()) < 1e-5, name


def test_half_precision_is_compared_with_single(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "designs", lambda: [])
    [found] = made_here(gpu_check.agreement(CPU)).values()
    assert found["fp32 states"] < 1e-5 < found["bf16 states"] < 0.05
    assert 1e-5 < found["bf16 explicit gradients"] < 0.1


def test_a_card_is_timed_on_any_device(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Dims(d_model=16, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1)
    sizes = {"SECONDS": 0.01, "VOCABULARY": 50, "ROWS": 4, "LENGTH": 6, "AT_ONCE": (1, 2)}
    for name, value in sizes.items():
        monkeypatch.setattr(gpu_check, name, value)
    speeds = made_here(gpu_check.speed(CPU, {"Tiny": small}, compiled=False))
    assert list(speeds) == ["Tiny bf16", "Tiny fp32"]
    assert all(min(values.values()) > 0 for values in speeds.values())
    dear = {f"{axis} {level}" for axis, levels in gpu_check.DEAR.items() for level in levels}
    assert set(made_here(gpu_check.levels(CPU, small))) == dear
    assert list(made_here(gpu_check.packed(CPU, small))) == ["1 at once", "2 at once"]


FAILS = partial(int, "x\ny")


def test_what_fails_loses_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parts, "IMPORTED", [])
    told = []
    part = _parts.measure(
        {
            "process": _parts.alone(os.getpid),
            "again": _parts.alone(os.getpid),
            "raises": _parts.alone(FAILS),
            "dies": _parts.alone(partial(os._exit, 3)),
            "after": _parts.alone(os.getpid),
        },
        until=time.perf_counter() + 60,
        say=lambda name, values: told.append(name),
    )
    assert told == list(part.found) == ["process", "again", "after"]
    assert part.left_out == []
    assert part.found["process"] == part.found["again"] != part.found["after"]
    assert part.failed == {
        "raises": "ValueError: invalid literal for int() with base 10: 'x\\ny'",
        "dies": "its process ended with exit code 3",
    }


def test_a_check_says_what_failed_and_keeps_the_rest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {
        "first": {"bad": _parts.alone(FAILS)},
        "second": {"good": _parts.alone(partial(dict, speed=2.0))},
        "third": {"slow": _parts.alone(partial(time.sleep, 60))},
    }
    monkeypatch.setattr(gpu_check, "_parts", lambda device, path: parts)
    monkeypatch.setattr(gpu_check, "SHARES", {"third": 0.5})
    monkeypatch.setattr(_parts, "IMPORTED", [])
    with pytest.raises(SystemExit, match="failed: first"):
        gpu_check.main([])
    out = capsys.readouterr().out
    found = json.loads(out.splitlines()[-1])
    assert found["second"] == {"good": {"speed": 2.0}}
    assert found["failed"] == {
        "first": {"bad": "ValueError: invalid literal for int() with base 10: 'x\\ny'"}
    }
    assert found["left_out"] == {"third": ["slow"]}
    assert "no time for: slow" in out


def test_training_stops_at_the_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {name: value for name, value in TINY.items() if not name.startswith("budget")}
    monkeypatch.setattr(_to_bleu, "RECIPE", small)
    monkeypatch.setattr(_to_bleu, "GOAL", 0.0)
    found = _to_bleu.train("", seconds=60, max_steps=6, every=2)
    assert list(found) == ["after 2 updates"]
    assert 0 <= found["after 2 updates"]["bleu"] < 50
    monkeypatch.setattr(_to_bleu, "GOAL", 101.0)
    assert list(_to_bleu.train("", seconds=0, max_steps=6, every=2)) == ["after 1 updates"]


def test_a_gpu_is_checked_without_what_its_machine_lacks() -> None:
    code = """
import builtins
from pathlib import Path
lacking = {"wandb", "optuna", "datasets", "jsonargparse", "rich", "orjson"}
imports = builtins.__import__
def import_ours(name, globals=None, *others, **named):
    file = Path((globals or {}).get("__file__", "/"))
    is_ours = file.is_relative_to(Path.cwd()) and "site-packages" not in file.parts
    if name.split(".")[0] in lacking and is_ours:
        raise ModuleNotFoundError(name)
    return imports(name, globals, *others, **named)
builtins.__import__ = import_ours
import benchmarks.gpu_check
"""
    root = Path(__file__).parents[1]
    answer = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr

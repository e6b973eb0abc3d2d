"""A checkpoint is whole, of this run and of this code, or it is none."""

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ablations.checkpoints import CheckpointFile, checkpoint_seconds, random_state, set_random_state


def cut_off(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip_a_bit(content: bytes) -> bytes:
    return content[:-500] + bytes([content[-500] ^ 1]) + content[-499:]


@pytest.mark.parametrize(
    "damage",
    [cut_off, flip_a_bit, lambda _: b"", lambda _: b"of another program\n"],
    ids=["cut off", "flipped bit", "empty", "foreign"],
)
def test_a_damaged_checkpoint_is_none(
    damage: Callable[[bytes], bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = CheckpointFile(tmp_path / "checkpoint.pt", owner={})
    file.save_checkpoint({"weights": torch.ones(1000)}, file.path)
    file.path.write_bytes(damage(file.path.read_bytes()))
    assert file.find() is None
    [line] = caplog.messages
    assert f"{file.path} is ignored, the run starts over: it is damaged" in line


def test_a_checkpoint_of_another_run_is_none_of_this_one(tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "checkpoint.pt"
    CheckpointFile(path, owner={"run": "a", "code": "1"}).save_checkpoint({}, path)
    assert CheckpointFile(path, owner={"run": "a", "code": "1"}).find() == {}
    assert CheckpointFile(path, owner={"run": "b", "code": "1"}).find() is None
    assert "its run is a, here it is b" in caplog.text


def test_every_generator_comes_back() -> None:
    def draw() -> list[float]:
        return [random.random(), float(np.random.rand()), float(torch.rand(1)), np.random.randn()]

    draw()
    state = random_state()
    drawn = draw()
    assert draw() != drawn
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    set_random_state(torch.load(buffer, weights_only=True))
    assert draw() == drawn


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_a_time_between_checkpoints_that_is_none_is_refused(text: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("ABLATIONS_CHECKPOINT_SECONDS", text)
    with pytest.raises(ValueError, match=f"ABLATIONS_CHECKPOINT_SECONDS is '{text}'; it must be"):
        checkpoint_seconds()


def test_a_gpu_goes_on_from_the_generators_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    restored = []
    state = random_state()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_rng_state", restored.append)
    set_random_state(state | {"cuda": None})
    set_random_state(state | {"cuda": "that of a GPU"})
    assert restored == ["that of a GPU"]

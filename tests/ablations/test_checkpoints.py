"""Killed anywhere, gone on from the last checkpoint: the same run, bit by bit."""

import multiprocessing
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ablations import callbacks
from ablations import run as run_module
from ablations.checkpoints import Checkpoints
from ablations.stopping import Stop
from ablations.tasks import Task
from lightning_modules.forecasting import ForecastingModule
from lightning_modules.optimization import Optimizer, Precision, Schedule
from lightning_modules.supervised import TokenModule
from tests.ablations.runs import (
    Killed,
    assert_the_same,
    config_of,
    curve,
    prepared,
    read,
    run,
)

fork = multiprocessing.get_context("fork")  # a new process would import torch once more
MODULES = (TokenModule, ForecastingModule)
Seen = dict[int, tuple[list[int], float]]  # rows and rate, by the micro-batch of the whole run


def die() -> None:
    raise Killed


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Seen]:
    """Watches every micro-batch, of this and later runs; kills the run in one of them."""

    def watch(kill_at: int | None = None, kill: Callable[[], None] = die) -> Seen:
        seen: Seen = {}

        def wrap(step: Callable[..., Any]) -> Callable[..., Any]:
            def training_step(self: Any, batch: Any, batch_index: int) -> Any:
                number = self.trainer.fit_loop.total_batch_idx
                seen[number] = (
                    batch.indices.tolist(),
                    self.trainer.optimizers[0].param_groups[0]["lr"],
                )
                if number == kill_at:
                    kill()
                return step(self, batch, batch_index)

            return training_step

        for module, step in STEPS.items():
            monkeypatch.setattr(module, "training_step", wrap(step))
        return seen

    return watch


STEPS = {module: module.training_step for module in MODULES}


# Every level of what an update depends on besides the design: a run for each row.
UPDATES: list[tuple[str, int, dict[str, Any]]] = [
    ("translation", 3, {}),
    ("sequences", 2, {"optim__schedule": "cosine", "optim__optimizer": "adam"}),
    ("forecasting", 1, {"optim__schedule": "linear", "optim__weight_decay": 0.1}),
    (
        "language_modeling",
        4,
        {"optim__schedule": "constant", "optim__precision": "bf16", "optim__accumulate": 3},
    ),
]


def test_every_way_to_update_is_killed_below() -> None:
    configs = [config_of(task, **changes) for task, _, changes in UPDATES]
    assert {config.task for config in configs} == set(Task)
    for axis in (Schedule, Optimizer, Precision):
        used = {value for c in configs for value in vars(c.optim).values()} & set(axis)
        assert used == set(axis) - {Precision.fp16}  # which needs a GPU


@pytest.mark.parametrize(("task", "every", "changes"), UPDATES, ids=[task for task, *_ in UPDATES])
def test_killed_five_times_it_is_the_same_run(
    task: str,
    every: int,
    changes: dict[str, Any],
    tmp_path: Path,
    watched: Callable[..., Seen],
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(
        Checkpoints, "_is_due", lambda self, trainer: trainer.global_step % every == 0
    )
    monkeypatch.setattr(callbacks, "CURVE_ROWS", 4)  # so that checkpoints lie between two rows
    config = prepared(task, tmp_path, **changes)
    seen = watched()
    undisturbed = run(config, tmp_path / "undisturbed")
    assert len(seen) > 24  # over some epochs, each of which may end with half an update
    trace: Seen = {}
    for kill_at in sorted(random.Random(f"{task}/{every}").sample(range(1, len(seen)), 5)):
        part = watched(kill_at)
        with pytest.raises(Killed):
            run(config, tmp_path / "killed")
        trace |= part
    last = watched()
    result = run(config, tmp_path / "killed")
    assert len(last) < len(seen)
    assert trace | last == seen
    assert_the_same((undisturbed, tmp_path / "undisturbed"), (result, tmp_path / "killed"))
    assert (undisturbed["resumed"], result["resumed"]) == (0, 5)
    assert not (tmp_path / "killed" / result["id"] / "checkpoint.pt").exists()


def test_a_run_that_is_asked_to_stop_loses_no_update(
    tmp_path: Path, watched: Callable[..., Seen]
) -> None:
    config, stop = config_of("sequences"), Stop()
    seen = watched()
    undisturbed = run(config, tmp_path / "undisturbed")
    first = watched(kill_at=12, kill=stop.ask)
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "stopped", stop=stop)
    assert max(first) == 13  # an update has two micro-batches
    last = watched()
    result = run(config, tmp_path / "stopped")
    assert first.keys().isdisjoint(last)
    assert first | last == seen
    assert_the_same((undisturbed, tmp_path / "undisturbed"), (result, tmp_path / "stopped"))


def test_a_run_that_is_asked_to_stop_while_it_is_evaluated_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Stop()
    monkeypatch.setattr(TokenModule, "on_test_start", lambda _: stop.ask())
    assert run(config_of("sequences"), tmp_path, stop=stop)["status"] == "finished"
    assert stop.asked


def test_sigterm_ends_a_run_at_an_update_too(tmp_path: Path, watched: Callable[..., Seen]) -> None:
    config = config_of("sequences")
    seen = watched(kill_at=12, kill=lambda: os.kill(os.getpid(), signal.SIGTERM))
    with Stop() as stop, pytest.raises(KeyboardInterrupt):
        run(config, tmp_path, stop=stop)
    assert max(seen) == 13
    [file] = tmp_path.glob("*/checkpoint.pt")
    progress = read(file)["loops"]["fit_loop"]["epoch_loop.batch_progress"]
    assert (progress["total"]["ready"], progress["current"]["ready"]) == (14, 4)
    assert not progress["is_last_batch"]  # the fifth and last of the epoch is yet to come


def test_kill_9_costs_nothing_but_time(tmp_path: Path, watched: Callable[..., Seen]) -> None:
    config = config_of("sequences")
    undisturbed = run(config, tmp_path / "undisturbed")
    for kill_at in (9, 22):
        watched(kill_at=kill_at, kill=lambda: os.kill(os.getpid(), signal.SIGKILL))
        process = fork.Process(target=run, args=(config, tmp_path / "killed"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ABLATIONS_CHECKPOINT_SECONDS", "0")
            process.start()
            process.join()
        assert process.exitcode == -signal.SIGKILL
    last = watched()
    result = run(config, tmp_path / "killed")
    assert min(last) in (21, 22)  # an update may end with the epoch
    assert result["resumed"] == 2
    assert_the_same((undisturbed, tmp_path / "undisturbed"), (result, tmp_path / "killed"))
    assert list(tmp_path.glob("killed/*/.checkpoint*")) == []


class Recorder:
    """Keeps what is logged, and is its own tracker."""

    def __init__(self) -> None:
        self.logged: dict[tuple[Any, ...], dict[str, float]] = {}

    def start(self, *_: Any, **__: Any) -> "Recorder":
        return self

    def log(self, metrics: dict[str, float], step: int) -> None:
        self.logged[step, *metrics] = metrics  # what was logged before the kill comes again

    def finish(self, *_: Any) -> None:
        """Nothing."""

    def abandon(self, status: str) -> None:
        """Nothing."""


def test_what_is_logged_goes_on_at_the_same_steps(
    tmp_path: Path, watched: Callable[..., Seen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoints, "_is_due", lambda self, trainer: True)
    config = config_of("sequences")
    undisturbed, disturbed = Recorder(), Recorder()
    run(config, tmp_path / "undisturbed", tracker=undisturbed)
    # Before the first kill there was a validation just before the checkpoint.
    for kill_at in (10, 17):
        watched(kill_at)
        with pytest.raises(Killed):
            run(config, tmp_path / "killed", tracker=disturbed)
    watched()
    run(config, tmp_path / "killed", tracker=disturbed)
    assert disturbed.logged == undisturbed.logged
    assert len(undisturbed.logged) > 16


def test_the_seconds_of_a_run_add_up(tmp_path: Path, watched: Callable[..., Seen]) -> None:
    config = config_of("sequences")
    watched(20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATIONS_CHECKPOINT_SECONDS", "0")
        with pytest.raises(Killed):
            run(config, tmp_path)
    [file] = tmp_path.glob("*/checkpoint.pt")
    kept = read(file)["callbacks"]["LearningCurve"]
    watched()
    result = run(config, tmp_path)
    seconds = [float(row["seconds"]) for row in curve(result, tmp_path)]
    assert seconds == sorted(seconds)
    assert result["seconds"]["train"] > kept["seconds"] > 0
    assert result["seconds"]["total"] > result["seconds"]["train"]


def test_a_useless_checkpoint_is_named_and_the_run_starts_over(
    tmp_path: Path,
    watched: Callable[..., Seen],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = config_of("sequences", budget__max_steps=4)
    monkeypatch.setenv("ABLATIONS_CHECKPOINT_SECONDS", "0")
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "code_version", lambda: "older")
        watched(5)
        with pytest.raises(Killed):
            run(config, tmp_path)
    [file] = tmp_path.glob("*/checkpoint.pt")
    seen = watched()
    result = run(config, tmp_path)
    assert (min(seen), result["resumed"], result["status"]) == (0, 0, "finished")
    [line] = caplog.messages
    assert f"{file} is ignored, the run starts over: its code is older, here it is" in line
    assert not file.exists()

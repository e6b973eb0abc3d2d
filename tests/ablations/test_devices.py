"""A cell on two devices is the cell on one: the same rows, losses and scores, nothing left over."""

import json
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from ablations import devices as devices_module
from ablations import run as run_module
from ablations.config import RunConfig
from ablations.devices import check_devices, check_shares, gather, total
from ablations.stopping import Stop
from ablations.task_runs.registry import make_task_run
from ablations.team import run_together
from lightning_modules.forecasting import ForecastingModule
from lightning_modules.supervised import TokenModule
from tests.ablations.runs import (
    Killed,
    assert_the_same,
    config_of,
    curve,
    prepared,
    run,
    weights,
)

MODULES = (TokenModule, ForecastingModule)
STEPS = {module: module.training_step for module in MODULES}
# Each process draws dropout for its own rows, so runs are compared without it.
EXACT = {"dims__dropout": 0.0}
CONFIGS: dict[str, dict[str, Any]] = {
    "translation": {"data__n_test": 5},
    "sequences": {},
    "forecasting": {"data__eval_lookbacks": "1x"},
    "language_modeling": {},
}
Rows = list[list[int]]


def exact(task: str, **changes: Any) -> RunConfig:
    return prepared(task, folder_of_all(), **{**EXACT, **CONFIGS[task], **changes})


def recorded(work: Callable[..., None], folder: Path, **options: Any) -> None:
    """Do the work, and write the rows of each micro-batch that this process takes."""
    rows: Rows = []

    def wrap(step: Callable[..., Any]) -> Callable[..., Any]:
        def training_step(self: Any, batch: Any, batch_index: int) -> Any:
            rows.append(batch.indices.tolist())
            return step(self, batch, batch_index)

        return training_step

    for module, step in STEPS.items():
        module.training_step = wrap(step)  # type: ignore[method-assign]
    try:
        work(**options)
    finally:
        for module, step in STEPS.items():
            module.training_step = step  # type: ignore[method-assign]
    folder.mkdir(exist_ok=True, parents=True)
    (folder / f"rows-{options['devices'].rank}.json").write_text(json.dumps(rows))


def run_recorded(config: RunConfig, folder: Path, *, count: int) -> tuple[dict[str, Any], Rows]:
    """The result, and the rows of each global micro-batch."""

    def together(work: Callable[..., None], **options: Any) -> None:
        run_together(partial(recorded, work, folder), **options)

    attempt = run_module._Cell.attempt
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "run_together", together)
        if count == 1:
            patch.setattr(
                run_module._Cell,
                "attempt",
                lambda self, **options: recorded(partial(attempt, self), folder, **options),
            )
        result = run(config, folder, devices=count)
    shares = [json.loads((folder / f"rows-{r}.json").read_text()) for r in range(count)]
    return result, [sorted(chain.from_iterable(parts)) for parts in zip(*shares, strict=True)]


@cache
def folder_of_all() -> Path:
    """One folder for all, so that what several tests compare with is run once."""
    folder = tempfile.TemporaryDirectory()
    folders.append(folder)
    return Path(folder.name)


folders: list[Any] = []


@cache
def result_of(config: RunConfig, count: int) -> tuple[dict[str, Any], Rows]:
    return run_recorded(config, folder_of_all() / str(count), count=count)


def numbers(rows: list[dict[str, str]], name: str) -> list[float]:
    return [float(row[name]) for row in rows if row[name]]


@pytest.mark.parametrize("task", CONFIGS)
def test_two_devices_make_the_run_of_one(task: str) -> None:
    one, rows_of_one = result_of(exact(task), 1)
    two, rows_of_two = result_of(exact(task), 2)
    assert (one["id"], one["devices"], two["devices"]) == (two["id"], 1, 2)
    assert rows_of_two == rows_of_one
    for name in ("steps", "target_tokens", "status", "data_report", "parameters"):
        assert one[name] == two[name]
    curves = [curve(r, folder_of_all() / str(count)) for count, r in ((1, one), (2, two))]
    for name in ("step", "lr", "train_loss", "validation_loss"):
        first, second = (numbers(rows, name) for rows in curves)
        assert second == pytest.approx(first, rel=1e-5)
    for before, after in zip(one["metrics"], two["metrics"], strict=True):
        value = before.pop("value")
        assert after.pop("value") == pytest.approx(value, rel=1e-5)
        assert after == before


def test_seeds_order_the_rows_whatever_the_devices() -> None:
    _, one = result_of(exact("sequences"), 2)
    _, other = result_of(exact("sequences", seed=2), 2)
    assert one[0] != other[0]
    epochs = [sorted(chain.from_iterable(rows[:5])) for rows in (one, other)]
    assert epochs == [list(range(50))] * 2


def killing(at: int) -> Callable[[], None]:
    """Ends the run by force when so many checkpoints were kept."""
    kept = 0

    def count() -> None:
        nonlocal kept
        kept += 1
        if kept == at:
            raise Killed

    return count


def test_killed_anywhere_two_devices_make_the_undisturbed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of("sequences")
    undisturbed = run(config, tmp_path / "undisturbed", devices=2)
    monkeypatch.setenv("ABLATIONS_CHECKPOINT_SECONDS", "0")
    for at in (3, 6):
        with pytest.raises(Killed):
            run(config, tmp_path / "killed", devices=2, kept=killing(at))
    assert multiprocessing.active_children() == []
    result = run(config, tmp_path / "killed", devices=2)
    assert (undisturbed["resumed"], result["resumed"]) == (0, 2)
    assert_the_same((undisturbed, tmp_path / "undisturbed"), (result, tmp_path / "killed"))
    stop = Stop()
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "stopped", devices=2, stop=stop, kept=stop.ask)
    result = run(config, tmp_path / "stopped", devices=2)
    assert_the_same((undisturbed, tmp_path / "undisturbed"), (result, tmp_path / "stopped"))


def test_each_device_draws_dropout_of_its_own(tmp_path: Path) -> None:
    dropped = config_of("sequences", optim__accumulate=1, budget__max_steps=1)
    one, two = (run(dropped, tmp_path / str(count), devices=count) for count in (1, 2))
    loss = [numbers(curve(r, tmp_path / n), "train_loss") for n, r in (("1", one), ("2", two))]
    assert loss[0] != pytest.approx(loss[1], rel=1e-5)
    drawn: list[float] = []
    for rank in range(2):
        torch.manual_seed(1)
        devices_module.Devices(count=2, rank=rank).diversify(1)
        drawn.append(torch.rand(()).item())
    torch.manual_seed(1)
    assert drawn[0] == torch.rand(()).item() != drawn[1]


def test_a_checkpoint_of_another_number_of_devices_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABLATIONS_CHECKPOINT_SECONDS", "0")
    config = exact("sequences")
    with pytest.raises(Killed):
        run(config, tmp_path, kept=killing(3))
    assert list(tmp_path.glob("*/checkpoint.pt"))
    assert run(config, tmp_path, devices=2)["resumed"] == 0


def test_a_killed_process_takes_the_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABLATIONS_CHECKPOINT_SECONDS", "0")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    victims: list[int] = []

    def kill_the_second() -> None:
        if not victims:
            children = sorted(multiprocessing.active_children(), key=lambda child: child.name)
            victims.extend(child.pid for child in children if child.pid)
            os.kill(victims[-1], signal.SIGKILL)

    with pytest.raises(ChildProcessError, match="of 2 was killed by signal 9"):
        run(exact("sequences"), tmp_path / "runs", devices=2, kept=kill_the_second)
    assert len(victims) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in victims)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["runs"]
    result = run(exact("sequences"), tmp_path / "runs", devices=2)
    assert result["resumed"] == 1


def starve(work: Callable[..., None], **options: Any) -> None:
    """The work, where the memory of the second device holds three rows."""
    step = TokenModule.training_step

    def training_step(self: Any, batch: Any, batch_index: int) -> Any:
        if len(batch) > 3 and options["devices"].rank == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return step(self, batch, batch_index)

    TokenModule.training_step = training_step  # type: ignore[method-assign]
    work(**options)


def test_memory_too_small_on_one_device_cuts_the_batches_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        run_module, "run_together", lambda work, **o: run_together(partial(starve, work), **o)
    )
    result = run(exact("sequences"), tmp_path, devices=2)
    whole, _ = result_of(exact("sequences"), 1)
    assert (result["batch_parts"], result["target_tokens"]) == (2, whole["target_tokens"])
    before, after = weights(whole, folder_of_all() / "1"), weights(result, tmp_path)
    for name in before:
        if not name.endswith("key.bias"):  # it has no gradient but rounding
            torch.testing.assert_close(after[name], before[name], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data__batch_size": 7}, "the smallest training batch has 1 row"),
        ({"data__n_train": 20, "data__n_eval": 1}, "the validation split has 1 row"),
    ],
)
def test_batches_that_cannot_be_shared_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        run(exact("sequences", **changes), tmp_path, devices=2)
    data = make_task_run(exact("sequences"), cache_dir=tmp_path).data
    check_shares(data, count=2)


def test_what_two_devices_cannot_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    batch_norm = exact("sequences", design__norm_kind="batch_norm_masked")
    check_devices(batch_norm)
    with pytest.raises(ValueError, match=r"design\.norm_kind batch_norm_masked reads a whole"):
        check_devices(batch_norm, count=2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    check_devices(exact("sequences"))
    with pytest.raises(ValueError, match="is 2, and 1 GPU can be used"):
        check_devices(exact("sequences"), count=2)


def test_a_process_alone_has_everything() -> None:
    assert (total(torch.tensor(3)), gather({"a": 1})) == (3, [{"a": 1}])


def test_nothing_to_train_needs_one_process(tmp_path: Path) -> None:
    config = exact("forecasting", variant__model="repeat_last")
    assert run(config, tmp_path, devices=2)["devices"] == 1


def test_a_cell_in_a_slurm_job_of_two_tasks_is_none_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "2")
    assert run(exact("sequences"), tmp_path)["devices"] == 1

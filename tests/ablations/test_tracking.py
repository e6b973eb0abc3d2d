"""Weights & Biases is a view: it can fail, a run cannot fail by it."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import wandb

from ablations import run as run_module
from ablations import tracking
from ablations.config import RunConfig, nested
from ablations.divergence import Divergence
from ablations.inspection import Inspection
from ablations.ledger import STATUSES
from ablations.run import run_cell
from ablations.stopping import PrunedError, Stop
from ablations.tracked_values import evaluation_rows, run_name, run_tags, summary
from ablations.tracking import Tracker, is_offline
from tests.ablations.offline_runs import last_summary, logged_config, read_back, saved_files
from tests.ablations.tiny import tiny

RESULT: dict[str, Any] = {
    "id": "abc123",
    "status": "finished",
    "diverged_at_step": None,
    "parameters": 10,
    "steps": 2,
    "target_tokens": 40,
    "tokens_per_second": 5.0,
    "seconds": {"train": 1.0},
    "metrics": [
        {"split": "validation", "length": None, "metric": "bleu", "value": 9.0, "signature": "s"},
        {"split": "test", "length": 8, "metric": "bleu", "value": 12.5, "signature": "s"},
        {"split": "test", "length": 16, "metric": "bleu", "value": 2.5, "signature": "s"},
    ],
    "undefined": [{"split": "test", "length": 32, "why": "the table is too short"}],
}
HOPELESS = {"pruner": "median", "validations": 2, "curves": [[0.0, 0.0]] * 6}
CHANGES = {"design.norm_position": "post", "dims.n_heads": 4}


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path))


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Cells of one process that ended in every way there is; ids by status."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT"):
            patch.delenv(name, raising=False)
        patch.setenv("WANDB_DATA_DIR", str(folder))
        tracker, ids = Tracker(folder, group="study"), {}

        def run(status: str, seed: int, **more: Any) -> None:
            config = tiny(design__norm_position="post", seed=seed, **more.pop("config", {}))
            ids[status] = run_module.run_id(config, config.task.value.fingerprint(config.data))
            changes = {"design.norm_position": "post"}
            runs = {"runs_dir": folder, "cache_dir": folder / ".cache", "changes": changes}
            run_cell(config, tracker=tracker, **runs, **more)

        run("finished", 1)
        run("diverged", 2, config={"budget__divergence_loss": 0.1})
        with pytest.raises(PrunedError):
            run("pruned", 5, pruning=HOPELESS)
        patch.setattr(run_module._Run, "_evaluate", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run("failed", 3)
        stop = Stop()
        patch.setattr(Divergence, "on_train_batch_end", lambda *_: stop.ask())
        with pytest.raises(KeyboardInterrupt):
            run("interrupted", 4, stop=stop)
    return folder, ids


def test_an_offline_run_holds_config_curve_table_and_pictures(cells: tuple[Path, dict]) -> None:
    folder, ids = cells
    identity = ids["finished"]
    records = read_back(folder, identity)
    [run] = records["run"]
    config = tiny(design__norm_position="post")
    assert logged_config(records) == {"run": identity, **nested(config)}
    assert (run["run_id"], run["run_group"], run["job_type"]) == (identity, "study", "translation")
    assert run["display_name"] == "norm_position=post seed=1"
    assert run["tags"] == ["norm_position=post"]
    assert {item["options"]["step_sync"] for item in records["metric"] if "step_metric" in item}
    rows = [item["item"] for item in records["history"]]
    assert [row["step"] for row in rows if "train/loss" in row] == list(range(1, 11))
    assert [row["step"] for row in rows if "validation/loss" in row] == [4, 8]
    assert all("lr" in row for row in rows if "train/loss" in row)
    paths = saved_files(records)
    for name in ("evaluation", "attention/encoder", "attention/decoder-cross", "positions/encoder"):
        assert any(f"/{name}_" in path for path in paths), name
    assert {"result.json", "learning_curve.csv"} <= paths
    result = json.loads((folder / identity / "result.json").read_text())
    found = last_summary(records)
    assert found["status"] == "finished"
    assert found["bleu"] == found["final/test/bleu"] == _value(result, "test", "bleu")
    for name in ("parameters", "steps", "tokens_per_second"):
        assert found[name] == pytest.approx(result[name])
    for name in ("flops_per_target", "peak_memory_bytes", "attention/encoder/distance"):
        assert found[name] > 0
    assert rows[-1]["evaluation.nrows"] == len(result["metrics"])


def _value(result: dict[str, Any], split: str, metric: str) -> float:
    rows = (r for r in result["metrics"] if (r["split"], r["metric"]) == (split, metric))
    return next(rows)["value"]


@pytest.mark.parametrize(
    ("status", "code"),
    [("finished", 0), ("diverged", 0), ("pruned", 0), ("failed", 1), ("interrupted", 1)],
)
def test_cells_of_one_process_are_runs_of_their_own_each_closed(
    cells: tuple[Path, dict], status: str, code: int
) -> None:
    folder, ids = cells
    records = read_back(folder, ids[status])
    assert last_summary(records)["status"] == status
    assert [end.get("exit_code", 0) for end in records["exit"]] == [code]
    assert (folder / ids[status] / "result.json").exists() is (status in STATUSES)


def test_kill_9_loses_at_most_two_seconds(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\nfrom pathlib import Path\n"
        "from ablations.tracking import Tracker\nfrom tests.ablations.tiny import tiny\n"
        "run = Tracker(Path(sys.argv[1])).start(tiny(), 'abc123')\n"
        "for step in range(1, 61):\n    run.log({'train/loss': 1.0}, step)\n    time.sleep(0.05)\n"
        "os.kill(os.getpid(), 9)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=root, timeout=120)
    assert done.returncode == -signal.SIGKILL
    time.sleep(0.5)
    steps = [item["item"]["step"] for item in read_back(tmp_path, "abc123")["history"]]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= 60 - 2 / 0.05


@pytest.mark.parametrize(
    ("key", "mode", "offline"),
    [
        (None, None, True),
        ("k", None, False),
        ("k", "offline", True),
        (None, "online", False),
        ("k", "disabled", True),
    ],
)
def test_without_a_key_runs_stay_here(monkeypatch, key, mode, offline: bool) -> None:
    for name, value in (("WANDB_API_KEY", key), ("WANDB_MODE", mode)):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert is_offline() is offline


@pytest.mark.parametrize("disabled_by", ["flag", "environment"])
def test_switched_off_it_starts_nothing(tmp_path: Path, monkeypatch, disabled_by: str) -> None:
    monkeypatch.setattr(wandb, "init", None)
    if disabled_by == "environment":
        monkeypatch.setenv("WANDB_MODE", "disabled")
    tracker = Tracker(tmp_path / "runs", enabled=disabled_by != "flag")
    assert tracker.start(tiny(), "abc123") is None
    assert not (tmp_path / "runs").exists()


def test_a_failing_start_is_one_warning(tmp_path: Path, monkeypatch, caplog) -> None:
    def no_server(**_: Any) -> None:
        raise ConnectionError("no server\nat all")

    monkeypatch.setattr(wandb, "init", no_server)
    tracker = Tracker(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert [tracker.start(tiny(seed=n), f"id{n}") for n in (1, 2)] == [None, None]
    assert [record.message for record in caplog.records] == [
        "W&B is off, the run goes on without it: no server at all"
    ]


class Broken(dict):
    """A W&B run whose disk is full."""

    summary: dict[str, Any] = {}  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        raise OSError("disk full")


def test_failures_while_logging_are_one_warning(tmp_path: Path, caplog) -> None:
    tracker = Tracker(tmp_path)
    tracked = tracking.TrackedRun(Broken(), tracker)
    with caplog.at_level(logging.WARNING):
        tracked.log({"train/loss": 1.0}, 1)
        tracked.log({"train/loss": 1.0}, 2)
        tracked.finish(RESULT, tmp_path, Inspection)
    assert [record.message for record in caplog.records] == [
        "W&B is off, the run goes on without it: disk full"
    ]
    assert tracker.start(tiny(), "abc123") is None


def test_a_run_whose_service_was_killed_has_its_result(tmp_path: Path, caplog) -> None:
    """What W&B's own process meets, a crash or a full disk, ends no run."""
    tracker = Tracker(tmp_path)
    start = tracker.start

    def started(*words: Any, **named: Any) -> Any:
        tracked = start(*words, **named)
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            words = file.read_bytes().split(b"\0") if file.exists() else []
            parent = (file.parent / "stat").read_text().rpartition(")")[2].split()[1]
            if words[0].endswith(b"wandb-core") and int(parent) == os.getpid():
                os.kill(int(file.parent.name), signal.SIGKILL)
        time.sleep(0.5)
        return tracked

    tracker.start = started  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        result = run_cell(tiny(), runs_dir=tmp_path, cache_dir=tmp_path / ".cache", tracker=tracker)
    assert (tmp_path / result["id"] / "result.json").is_file()
    messages = [record.message for record in caplog.records if record.name == tracking.__name__]
    assert len(messages) == 1
    assert messages[0].startswith("W&B is off, the run goes on without it: ")


def test_the_result_is_on_the_disk_before_the_run_at_wandb_is_closed(tmp_path: Path) -> None:
    there: list[bool] = []

    class Spy:
        def start(self, *_: Any, **__: Any) -> "Spy":
            return self

        def log(self, *_: Any) -> None:
            """Nothing."""

        def finish(self, result: dict[str, Any], folder: Path, _: Any) -> None:
            there.append(json.loads((folder / "result.json").read_text()) == result)

    run_cell(tiny(), runs_dir=tmp_path, cache_dir=tmp_path / ".cache", tracker=Spy())  # type: ignore[arg-type]
    assert there == [True]


def test_names_and_tags_say_what_differs() -> None:
    assert run_name(RunConfig(seed=3), "abc", {}) == "baseline seed=3"
    assert run_name(RunConfig(seed=3), "abc", None) == "abc seed=3"
    assert run_name(RunConfig(seed=1), "abc", CHANGES) == "norm_position=post n_heads=4 seed=1"
    assert run_tags(CHANGES) == ["norm_position=post", "n_heads=4"]
    assert (run_tags({}), run_tags(None)) == (["baseline"], [])
    assert [len(tag) for tag in run_tags({"data.path": "x" * 99})] == [64]


def test_every_evaluated_length_has_its_place() -> None:
    found = summary(RESULT)
    assert (found["final/test@8/bleu"], found["final/test@16/bleu"]) == (12.5, 2.5)
    assert (found["final/validation/bleu"], found["bleu"]) == (9.0, 12.5)
    rows = evaluation_rows(RESULT)
    assert rows[-1] == ["test", 32, None, None, None, "the table is too short"]
    assert [row[1] for row in rows] == [None, 8, 16, 32]

"""`ablate dashboard` opens what is there; `ablate wandb workspace` writes what it would save."""

import json
import socket
import subprocess
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna_dashboard
import pytest

from ablations.plan import make_plan
from ablations.queue import Queue
from ablations.run import run_cell
from ablations.study import load_study
from ablations.worker import queue_file

BLEU = ("test", "bleu")
Ablate = Callable[..., tuple[int, str, str]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands and pages that were opened."""
    found: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", lambda words: found.append(words) or 0)
    monkeypatch.setattr(webbrowser, "open", lambda url: found.append([url]))
    return found


def test_what_is_there_is_opened(ablate: Ablate, opened: list[list[str]]) -> None:
    code, _, error = ablate("dashboard", "tiny.yaml")
    assert (code, error) == (
        2,
        "ablate: nothing to show of tiny in runs; run the study first\n",
    )
    cells = make_plan(load_study("tiny.yaml")).cells
    Queue(queue_file(Path("runs"), "tiny"), name="tiny").fill(cells[:1])
    assert ablate("dashboard", "tiny.yaml", "--port", "8123")[0] == 0
    program, url, *place = opened.pop()
    assert program.endswith("optuna-dashboard")
    assert url == f"sqlite:///{Path('runs/studies/tiny.sqlite').resolve()}"
    assert place == ["--host", "127.0.0.1", "--port", "8123"]
    run_cell(cells[0].config, runs_dir=Path("runs"), cache_dir=Path("runs/.cache"))
    assert ablate("dashboard", "tiny.yaml")[0] == 0
    assert opened.pop() == [Path("runs/studies/tiny.html").resolve().as_uri()]
    assert "tiny" in Path("runs/studies/tiny.html").read_text()
    for name in (f"offline-run-2-{cells[0].id}", "offline-run-1-ofanotherone"):
        Path("runs/wandb", name).mkdir(parents=True)
    for _ in range(2):
        assert ablate("dashboard", "tiny.yaml")[0] == 0
        *words, folder = opened.pop()
        assert words[1:] == ["leet"]
        [shown] = Path(folder).iterdir()
        assert shown.resolve() == Path("runs/wandb", f"offline-run-2-{cells[0].id}").resolve()


def test_a_port_that_cannot_be_had_is_refused(ablate: Ablate, opened: list[list[str]]) -> None:
    Queue(queue_file(Path("runs"), "tiny"), name="tiny").fill(
        make_plan(load_study("tiny.yaml")).cells[:1]
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, error = ablate("dashboard", "tiny.yaml", "--port", port)
    assert code == 2
    assert error.startswith(f"ablate: --port {port}: ")
    assert "Address already in use; name a free one" in error
    assert ablate("dashboard", "tiny.yaml", "--port", "70000")[0] == 2
    assert not opened


def test_results_are_served_on_this_machine_only(
    ablate: Ablate, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Any] = []
    monkeypatch.setattr(
        optuna_dashboard, "run_server", lambda storage, **where: served.append((storage, where))
    )
    cells = make_plan(load_study("tiny.yaml")).cells
    result = run_cell(cells[0].config, runs_dir=Path("runs"), cache_dir=Path("runs/.cache"))
    assert ablate("dashboard", "tiny.yaml", "--show", "results", "--port", "8123")[0] == 0
    [(storage, where)] = served
    assert where == {"host": "127.0.0.1", "port": 8123}
    [study] = storage.get_all_studies()
    assert study.study_name == "tiny"
    trials = storage.get_all_trials(study._study_id)
    assert [trial.user_attrs["run"] for trial in trials] == [cell.id for cell in cells]
    [measured] = (r["value"] for r in result["metrics"] if (r["split"], r["metric"]) == BLEU)
    assert trials[0].value == measured
    assert list(trials[0].intermediate_values) == [4]


def test_a_workspace_and_a_report_are_written_without_a_key(
    ablate: Ablate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    cells = make_plan(load_study("tiny.yaml")).cells
    run_cell(cells[0].config, runs_dir=Path("runs"), cache_dir=Path("runs/.cache"))
    for action in ("workspace", "report"):
        code, out, _ = ablate("wandb", action, "tiny.yaml", "--dry-run", f"{action}.json")
        assert (code, out) == (0, f"{action}: {action}.json\n")
        assert json.loads(Path(f"{action}.json").read_text())["displayName"] == "tiny"
        assert "design.value.norm_position" in Path(f"{action}.json").read_text()
    assert ablate("wandb", "push", "tiny.yaml", "--dry-run", "x.json")[0] == 2

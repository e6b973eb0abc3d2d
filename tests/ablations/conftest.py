"""The command, called in this process, and a server for W&B."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ablations import cli, tracking
from tests.ablations.tiny import STUDY
from tests.ablations.wandb_server import WandbServer


@pytest.fixture
def ablate(tmp_path, monkeypatch, capsys):
    """Run the command in an empty folder that holds tiny.yaml: exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(STUDY)

    def call(*words):
        code = cli.main(list(words))
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WandbServer]:
    """The stand-in, and an environment that leads to it."""
    with WandbServer() as server:
        for name in ("WANDB_MODE", "WANDB_PROJECT", "WANDB_ENTITY"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {**server.environment, "WANDB_DATA_DIR": str(tmp_path)}.items():
            monkeypatch.setenv(name, value)
        tracking.tear_down()  # it keeps the environment of its first run
        yield server
        tracking.tear_down()
    assert server.unknown == []


@pytest.fixture
def no_launch(monkeypatch):
    def launch(*_, **__):
        raise AssertionError("workers were started")

    monkeypatch.setattr("ablations.launch.launch", launch)

"""The command, called in this process."""

import pytest

from ablations import cli
from tests.ablations.tiny import STUDY


@pytest.fixture
def ablate(tmp_path, monkeypatch, capsys):
    """Run the command in an empty folder that holds tiny.yaml: exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(STUDY)

    def call(*words):
        code = cli.main(list(words))
        return code, *capsys.readouterr()

    return call

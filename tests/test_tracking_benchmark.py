"""The benchmark of tracking times the updates apart from what is around them."""

import json
from pathlib import Path

import pytest

from benchmarks import tracking
from tests.ablations.tiny import STUDY


def test_updates_and_what_is_around_them_make_the_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    (tmp_path / "tiny.yaml").write_text(STUDY)
    found = tracking.main(["--study", str(tmp_path / "tiny.yaml"), "--repetitions", "2"])
    out = capsys.readouterr().out.splitlines()
    assert json.loads(out[-1]) == found
    assert found["updates"] == 4
    seconds = found["seconds"]
    for arm in tracking.ARMS:
        parts = [seconds[kind][arm] for kind in ("updates_cpu", "around_cpu")]
        assert [sum(both) for both in zip(*parts, strict=True)] == pytest.approx(
            seconds["cell_cpu"][arm]
        )
        assert min(map(min, parts)) > 0
    assert found["service_cpu_seconds_a_cell"] > 0
    assert [line.split(",")[0] for line in out[2:4]] == ["updates", "updates"]

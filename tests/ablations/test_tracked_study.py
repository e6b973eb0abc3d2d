"""W&B's own reader finds a study that ran without a network as the folder of runs has it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ablations.config import nested
from ablations.ledger import read_record
from ablations.plan import Plan, make_plan
from ablations.study import load_study
from ablations.tracked_values import (
    TABLE,
    evaluation_rows,
    recorded_curve,
    run_name,
    run_tags,
    summary,
)
from ablations.worker import open_queue, work
from tests.ablations.offline_runs import (
    Records,
    last_summary,
    logged_config,
    offline_run,
    read_back,
    saved_files,
)
from tests.ablations.tiny import STUDY

RUNS = Path("runs")
WIDER = STUDY.replace("[sinusoidal, rope]", "[sinusoidal, rope, learned]")
PICTURES = (
    *("attention/encoder", "attention/decoder-self", "attention/decoder-cross"),
    *("positions/encoder", "positions/decoder"),
)


@pytest.fixture
def worked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The plan of a study, all of whose cells a worker has run without a key."""
    monkeypatch.chdir(tmp_path)
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path))
    Path("tiny.yaml").write_text(WIDER)
    plan = make_plan(load_study("tiny.yaml"))
    open_queue(plan.name, RUNS, storage=None).fill(plan.cells)
    assert work(plan.name, RUNS, wandb=True) == 0
    return plan


def curve(records: Records) -> list[tuple[dict[str, float], int]]:
    """What was logged while the run trained, as `recorded_curve` gives it."""
    rows = [item["item"] for item in records["history"]]
    groups = ("train/loss", "lr"), ("validation/loss",)
    return [
        ({name: row[name] for name in names}, row["step"])
        for row in rows
        for names in groups
        if names[0] in row
    ]


def check_files(records: Records, folder: Path, result: dict[str, Any]) -> None:
    """The table says what the record says, and the pictures can be opened."""
    paths = saved_files(records)
    [table] = (path for path in paths if path.startswith("media/table/evaluation_"))
    content = json.loads((folder / "files" / table).read_text())
    assert content == {"columns": list(TABLE), "data": evaluation_rows(result)}
    names = sorted(path.split("media/images/")[1] for path in paths if "media/images/" in path)
    assert [re.sub(r"_\d+_\w+\.png", "", name) for name in names] == sorted(PICTURES)
    for name in names:
        with Image.open(folder / "files/media/images" / name) as picture:
            picture.load()


def test_every_cell_of_a_study_is_read_back_whole(worked: Plan) -> None:
    assert len(worked.cells) == 8
    for cell in worked.cells:
        records = read_back(RUNS, cell.id)
        [run] = records["run"]
        assert logged_config(records) == {"run": cell.id, **nested(cell.config)}
        known = [run[name] for name in ("run_id", "run_group", "job_type")]
        assert known == [cell.id, "tiny", "translation"]
        assert run["display_name"] == run_name(cell.config, cell.id, cell.changes)
        assert run["tags"] == run_tags(cell.changes)
        result = read_record(RUNS / cell.id / "result.json")
        assert curve(records) == list(recorded_curve(RUNS / cell.id / "learning_curve.csv"))
        found = last_summary(records)
        for name, value in summary(result).items():
            assert found.get(name) == (pytest.approx(value) if value is not None else None), name
        assert [end.get("exit_code", 0) for end in records["exit"]] == [0]
        check_files(records, offline_run(RUNS, cell.id), result)

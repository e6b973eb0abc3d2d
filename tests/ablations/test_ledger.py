"""What the ledger reads, and what it leaves out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ablations.config import RunConfig, config_from_flat, nested, run_id
from ablations.identity import identity
from ablations.ledger import MEASURED, flat, load, read_record

FINGERPRINT = "0123456789abcdef"


def record_of(config: RunConfig, *, status: str = "finished") -> dict:
    row = {"split": "test", "length": None}
    bleu = row | {"metric": "bleu", "value": 12.5, "signature": "tok:13a"}
    loss = row | {"metric": "loss", "value": 2.5, "signature": "nats per target token"}
    return {
        "schema": 1,
        "id": run_id(config, FINGERPRINT),
        "status": status,
        "diverged_at_step": None if status == "finished" else 7,
        "config": nested(config),
        "data_fingerprint": FINGERPRINT,
        "tokenizer_hash": "aa",
        "metrics": [bleu, loss] if status == "finished" else [],
        "undefined": [],
        "parameters": 1000,
        "steps": 20,
        "target_tokens": 4000,
        "seconds": {"train": 1.5, "evaluate": 0.5, "total": 2.0},
        "tokens_per_second": 2666.7,
        "hardware": "a CPU",
        "threads": 1,
        "git_commit": None,
        "command": "ablate run",
        "started": "2026-01-01T00:00:00+00:00",
        "ended": "2026-01-01T00:00:02+00:00",
    }


def write(runs_dir: Path, record: dict, *, folder: str | None = None) -> Path:
    file = runs_dir / (folder or record["id"]) / "result.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(record))
    return file


def test_one_row_for_each_metric_of_each_run(tmp_path: Path) -> None:
    configs = [RunConfig(seed=1), config_from_flat({"design.norm_position": "post", "seed": 2})]
    for config in configs:
        write(tmp_path, record_of(config))
    ledger = load(tmp_path)
    assert ledger.problems == []
    assert len(ledger.frame) == 4
    post = ledger.frame[ledger.frame["design.norm_position"] == "post"].set_index("metric")
    assert post.loc["bleu", "value"] == 12.5
    assert post.loc["bleu", "signature"] == "tok:13a"
    assert post.loc["loss", ["seed", "steps", "seconds_train"]].tolist() == [2, 20, 1.5]
    assert set(post["run"]) == {run_id(configs[1], FINGERPRINT)}


def test_diverged_run_has_one_row_without_metric(tmp_path: Path) -> None:
    write(tmp_path, record_of(RunConfig(), status="diverged"))
    frame = load(tmp_path).frame
    assert frame["status"].tolist() == ["diverged"]
    assert frame["diverged_at_step"].tolist() == [7]
    assert frame[list(MEASURED)].isna().all(axis=None)


def test_what_is_undefined_has_a_row_that_says_why(tmp_path: Path) -> None:
    part = {"split": "test", "length": 16, "why": "the table ends at 8"}
    write(tmp_path, record_of(RunConfig()) | {"undefined": [part]})
    frame = load(tmp_path).frame
    assert frame["metric"].notna().tolist() == [True, True, False]
    assert frame["undefined"].notna().tolist() == [False, False, True]
    last = frame.iloc[2]
    assert (last["split"], last["length"], last["undefined"]) == ("test", 16, "the table ends at 8")
    assert last[["metric", "value", "signature"]].isna().all()


def test_a_record_that_says_nothing_of_it_is_defined_everywhere(tmp_path: Path) -> None:
    record = record_of(RunConfig())
    del record["undefined"]
    ledger = load(write(tmp_path, record).parents[1])
    assert ledger.problems == []
    assert ledger.frame["undefined"].isna().all()


def test_only_the_asked_ids_once_each(tmp_path: Path) -> None:
    ids = [write(tmp_path, record_of(RunConfig(seed=n))).parent.name for n in (1, 2, 3)]
    frame = load(tmp_path, ids=[ids[2], ids[0], ids[2], "feedfeedfeed"]).frame
    assert frame["run"].drop_duplicates().tolist() == [ids[2], ids[0]]
    assert len(frame) == 4


def test_missing_folder_gives_an_empty_frame_with_columns(tmp_path: Path) -> None:
    frame = load(tmp_path / "nowhere").frame
    assert frame.empty
    assert {"run", "status", "seconds_total", *MEASURED} <= set(frame.columns)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: text[: len(text) // 2], "cut off"),
        (lambda text: "", "cut off"),
        (lambda text: "[1, 2]", "no record"),
        (lambda text: '{"accuracy": 1}', "schema"),
        (lambda text: text.replace('"pre"', '"post"'), "was edited"),
        (lambda text: text.replace(FINGERPRINT, "f" * 16), "was edited"),
        (lambda text: text.replace("12.5", '"12.5"'), "no number"),
        (lambda text: text.replace('"parameters": 1000', '"parameters": true'), "parameters"),
        (lambda text: text.replace('"finished"', '"done"'), "legal: finished, diverged"),
        (lambda text: text.replace('"total"', '"sum"'), "seconds.total"),
        (lambda text: text.replace('"split"', '"part"'), "metrics hold"),
        (lambda text: text.replace('"undefined": []', '"undefined": ["x"]'), "undefined holds"),
        (lambda text: text.replace('"undefined": []', '"undefined": 8'), "undefined holds"),
    ],
)
def test_damaged_record_is_named_and_left_out(tmp_path: Path, damage, says: str) -> None:
    good = write(tmp_path, record_of(RunConfig(seed=1)))
    bad = write(tmp_path, record_of(RunConfig(seed=2)))
    bad.write_text(damage(bad.read_text()))
    ledger = load(tmp_path)
    assert set(ledger.frame["run"]) == {good.parent.name}
    assert len(ledger.problems) == 1
    assert str(bad) in ledger.problems[0]
    assert says in ledger.problems[0]


def test_record_in_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, record_of(RunConfig()), folder="0" * 12)
    with pytest.raises(ValueError, match="not of its folder"):
        read_record(file)


def test_identity_is_that_of_the_config() -> None:
    config = config_from_flat({"dims.dropout": 0, "design.position": "rope", "data.path": "/here"})
    recorded = json.loads(json.dumps(nested(config)))
    assert identity(flat(recorded), FINGERPRINT) == run_id(config, FINGERPRINT)
    recorded["data"]["path"] = "/there"
    assert identity(flat(recorded), FINGERPRINT) == run_id(config, FINGERPRINT)


def test_a_record_from_before_a_name_was_added_counts(tmp_path: Path) -> None:
    """It gets the value that goes without saying, and keeps its id."""
    record = record_of(RunConfig())
    del record["config"]["design"]["residual"], record["config"]["dims"]["init_gain"]
    ledger = load(write(tmp_path, record).parents[1])
    assert ledger.problems == []
    assert set(ledger.frame["design.residual"]) == {"add"}
    assert set(ledger.frame["dims.init_gain"]) == {1.0}


def test_needs_no_torch() -> None:
    check = "import sys, ablations.ledger as l; l.load('nowhere'); print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert answer.stdout.strip() == "False", answer.stderr

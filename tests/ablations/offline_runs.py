"""Offline runs of W&B, read back by W&B's own reader."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

Records = dict[str, list[dict[str, Any]]]


def offline_run(runs_dir: Path, identity: str) -> Path:
    """The one folder that W&B has written for a run."""
    [folder] = (runs_dir / "wandb").glob(f"offline-run-*-{identity}")
    return folder


def read_back(runs_dir: Path, identity: str) -> Records:
    """What an offline run holds, by kind of record."""
    folder = offline_run(runs_dir, identity)
    command = [Path(sys.executable).parent / "wandb", "leet", "inspect", "--json", folder]
    found = subprocess.run(command, capture_output=True, check=True, text=True)
    records: Records = {}
    for line in found.stdout.splitlines():
        record = json.loads(line)
        records.setdefault(record["type"], []).append(record[record["type"]])
    return records


def last_summary(records: Records) -> dict[str, Any]:
    """The summary as it was in the end."""
    return {name: v for part in records["summary"] for name, v in part.get("update", {}).items()}


def logged_config(records: Records) -> dict[str, Any]:
    """The config without what W&B adds."""
    [run] = records["run"]
    return {name: value for name, value in run["config"]["update"].items() if name != "_wandb"}


def saved_files(records: Records) -> set[str]:
    """The files of a run, by their paths below `files/`."""
    return {file["path"] for part in records["files"] for file in part["files"]}

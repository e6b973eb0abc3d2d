"""The place of the ETT files."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def ett_folder() -> Path:
    """The folder of ETTh1.csv and ETTh2.csv; the test is skipped where they are absent."""
    default = ROOT.parent / "shared" / "data"
    folder = Path(os.environ.get("ABLATIONS_DATA", default)) / "ett"
    if not all((folder / name).is_file() for name in ("ETTh1.csv", "ETTh2.csv")):
        pytest.skip(f"no ETT files in {folder}; ABLATIONS_DATA names the folder that holds ett/")
    return folder

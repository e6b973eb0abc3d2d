"""What every test shares: one thread, repeatable examples, the place of the Multi30k files."""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch loads, also by child processes

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

ROOT = Path(__file__).parents[1]


@pytest.fixture
def multi30k_path() -> Path:
    """The folder of Multi30k's parallel files; the test is skipped where it is absent."""
    default = ROOT.parent / "shared" / "data"
    path = Path(os.environ.get("ABLATIONS_DATA", default)) / "multi30k"
    if not path.is_dir():
        pytest.skip(f"no Multi30k files in {path}; ABLATIONS_DATA names the folder that holds them")
    return path

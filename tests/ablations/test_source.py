"""What counts as other code, and what doesn't."""

import shutil
from pathlib import Path

import pytest

from ablations.source import ROOMS, ROOT, source_version


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("*.pyc"))
    assert source_version(tmp_path) == source_version()
    source_version.cache_clear()
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("lightning_modules/axes/norms.py", "import", "import sys\nimport"),
        ("data/generators.py", "import", "import sys\nimport"),
        ("ablations/run.py", "def ", "PLACE = 1\n\n\ndef "),
        ("ablations/task_runs/sequences.py", "import", "import sys\nimport"),
    ],
)
def test_other_code_is_another_version(copy: Path, file: str, old: str, new: str) -> None:
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new, 1))
    assert source_version(copy) != source_version()


def test_comments_docstrings_layout_and_other_commands_are_not(copy: Path) -> None:
    for file in copy.rglob("*.py"):
        file.write_text(f"# A comment.\n\n\n{file.read_text()}")
    run = copy / "ablations" / "run.py"
    run.write_text(run.read_text().replace('"""One cell, from', '"""A single cell, from'))
    for name in ("cli.py", "commands.py", "report_commands.py", "plan.py", "inspection.py"):
        (copy / "ablations" / name).write_text("other = 1\n")
    (copy / "README.md").write_text("other\n")
    assert source_version(copy) == source_version()


def test_a_module_that_is_imported_from_its_package_counts(tmp_path: Path) -> None:
    (tmp_path / "ablations").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "ablations" / "run.py").write_text("from data import series\n")
    versions = []
    for rows in (1, 2):
        (tmp_path / "data" / "series.py").write_text(f"ROWS = {rows}\n")
        source_version.cache_clear()
        versions.append(source_version(tmp_path))
    assert versions[0] != versions[1]

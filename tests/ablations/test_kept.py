"""The kept plan of a study: taken while it is what would be planned, and never after."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ablations import arguments, kept
from ablations.study import load_study

HEAVY = "{'torch', 'optuna', 'pandas', 'ablations.config'}"


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The studies that were planned, which a kept plan saves."""
    names: list[str] = []

    def load(name: str, **options: object) -> object:
        names.append(name)
        return load_study(name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("ablations.study.load_study", load)
    return names


def test_the_status_of_a_planned_study_plans_nothing(ablate, tmp_path, planned) -> None:
    (tmp_path / "runs").mkdir()
    first = ablate("status", "tiny.yaml")
    assert ablate("status", "tiny.yaml") == first == (0, "tiny: 6 cells: 6 missing\n", "")
    assert planned == ["tiny.yaml"]


def edit_the_study(folder: Path) -> list[str]:
    file = folder / "tiny.yaml"
    file.write_text(file.read_text().replace("seeds: [1, 2]", "seeds: [1, 2, 3]"))
    return []


def ask_for_other_values(folder: Path) -> list[str]:
    return ["--dims.d_ff=32"]


def change_the_code(folder: Path) -> list[str]:
    (folder / "room" / "new.py").write_text("")
    return []


def damage_it(folder: Path) -> list[str]:
    (file,) = folder.glob("runs/studies/*.plan.json")
    file.write_text(file.read_text()[:-9])
    return []


@pytest.mark.parametrize(
    "change", [edit_the_study, ask_for_other_values, change_the_code, damage_it]
)
def test_what_has_changed_is_planned_again(
    ablate, tmp_path, planned, monkeypatch, change: Callable[[Path], list[str]]
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "room").mkdir()
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    monkeypatch.setattr(kept, "ROOMS", ("room",))
    ablate("status", "tiny.yaml")
    words = change(tmp_path)
    assert ablate("status", "tiny.yaml", *words)[0] == 0
    assert planned == ["tiny.yaml"] * 2


def test_other_data_in_the_same_place_are_planned_again(ablate, tmp_path, planned) -> None:
    text = tmp_path / "text.txt"
    text.write_text("some words of a text\n" * 40)
    (tmp_path / "runs").mkdir()
    (tmp_path / "lm.yaml").write_text(
        "base: {task: language_modeling}\naxes: {design.norm_position: [pre, post]}\n"
    )
    words = ("status", "lm.yaml", f"--data.path={text}")
    assert ablate(*words) == ablate(*words)
    text.write_text("other words of a text\n" * 40)
    os.utime(text, ns=(1, 1))
    assert ablate(*words)[0] == 0
    assert planned == ["lm.yaml"] * 2
    text.unlink()
    assert "is no file" in ablate(*words)[2]


def test_nothing_is_kept_where_there_are_no_runs(ablate, tmp_path) -> None:
    assert ablate("status", "tiny.yaml")[0] == 0
    assert not (tmp_path / "runs").exists()


def test_it_holds_what_a_state_is_said_with(ablate, tmp_path) -> None:
    (tmp_path / "runs").mkdir()
    ablate("plan", "tiny.yaml")
    (file,) = (tmp_path / "runs" / "studies").iterdir()
    cells = json.loads(file.read_text())["cells"]
    assert [cell["seed"] for cell in cells] == [1, 1, 1, 2, 2, 2]
    assert cells[2]["changes"] == {"design.position": "rope"}
    assert {cell["updates"] for cell in cells} == {4}


def test_the_status_of_a_planned_study_loads_no_heavy_library(ablate, tmp_path) -> None:
    (tmp_path / "runs").mkdir()
    ablate("plan", "tiny.yaml")
    code = (
        "import sys\nfrom ablations.cli import main\nmain(['status', 'tiny.yaml'])\n"
        f"sys.exit(f'loaded: {{found}}' if (found := {HEAVY} & set(sys.modules)) else 0)"
    )
    root = Path(arguments.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr
    assert "6 missing" in done.stdout

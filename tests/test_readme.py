"""The README does what it says: its examples run, its commands, levels and links exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ablations.describe import all_axes

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_a_python_example_runs(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("python")[number], f"README example {number}", "exec"), {})


def test_there_is_an_example_of_the_module_without_the_harness() -> None:
    assert any("TranslationModule(" in example for example in blocks("python"))


def test_every_command_shown_exists() -> None:
    shown = set(re.findall(r"\bablate ([a-z]+)", "\n".join(blocks("bash"))))
    code = "from ablations.cli import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert shown
    assert [command for command in sorted(shown) if command not in done.stdout] == []


def test_every_make_target_shown_exists() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z]+)", "\n".join(blocks("bash")))) <= set(targets)


def test_every_axis_is_listed() -> None:
    listed = {name for name in re.findall(r"`([a-z_.]+)`", README) if name in all_axes()}
    assert listed == all_axes().keys()


def test_every_local_link_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []

"""Which code the runs of a table went through, and what is said where it isn't the same."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from analysis.frames import StudyView


def check_code(cells: pd.DataFrame, study: "StudyView") -> None:
    """Refuse cells of different code, unless the study is to mix them.

    Raises:
        ValueError: naming two versions, with a run of each.
    """
    versions = code_versions(cells)
    if len(versions) > 1 and not study.mixed_code:
        (a, first), (b, second), *_ = versions.items()
        raise ValueError(
            f"code differs within one column of {study.name}: {a} ({_runs(first)}, such as "
            f"{first[0]}) and {b} ({_runs(second)}, such as {second[0]}); remove the runs of one, "
            f"then type '{study.fill_command}', or compare them as they are with --mixed-code"
        )


def code_versions(cells: pd.DataFrame) -> dict[str, list[str]]:
    """The runs by the version of the code that they went through, with its commit.

    Runs that don't say are left out.
    """
    if "code_version" not in cells:
        return {}
    said = cells[cells["code_version"].notna()]
    return {
        f"{version}{_commits(members)}": _ids(members)
        for version, members in said.groupby("code_version", sort=False)
    }


def code_note(cells: pd.DataFrame) -> str:
    """A sentence where the runs went through different code, or may have; else nothing."""
    versions = code_versions(cells)
    recorded = cells[cells["status"] != "missing"]
    told = recorded["code_version"].notna() if "code_version" in recorded else False
    silent = recorded[~pd.Series(told, index=recorded.index, dtype=bool)]
    parts = [f"{_runs(runs)} by {version}" for version, runs in versions.items()]
    several = "git_commit" in silent and silent["git_commit"].nunique() > 1
    if len(parts) + (not silent.empty) < 2 and not several:
        return ""
    if not silent.empty:
        parts.append(f"{_runs(_ids(silent))} of unknown code{_commits(silent)}")
    return f"Code is not, or may not be, the same: {'; '.join(parts)}."


def _commits(cells: pd.DataFrame) -> str:
    if "git_commit" not in cells:
        return ""
    named = ", ".join(_short(str(commit)) for commit in cells["git_commit"].dropna().unique())
    return f" (commit {named})" if named else ""


def _short(commit: str) -> str:
    """12 digits of a commit, and that files differed from it where they did."""
    digits, dash, dirty = commit.partition("-")
    return f"{digits[:12]}{dash}{dirty}"


def _ids(cells: pd.DataFrame) -> list[str]:
    """The runs that these cells are measured on, each once; see `analysis.splits`."""
    return list(dict.fromkeys(identifier.partition("/")[0] for identifier in cells["id"]))


def _runs(runs: Sequence[str]) -> str:
    return "1 run" if len(runs) == 1 else f"{len(runs)} runs"

"""Study files: a named table or a W&B grid, read by one parser into one Study."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

from ablations.config import RunConfig, Scalar, parse_value, plain
from ablations.mappings import read_mapping
from ablations.reported import checked_reported
from ablations.search import Search, distinct_seeds, parse_search
from ablations.study_files import shipped_studies, study_text
from ablations.tasks import Task

STUDY_KEYS = (
    *("name", "description", "base", "design", "axes", "seeds", "metric", "split", "reported"),
    "search",
)
GRID_KEYS = (
    *("name", "description", "method", "parameters", "metric"),
    *("program", "command", "project", "entity"),  # for W&B alone
)

SETTINGS = {field.name for field in fields(RunConfig)} - {"seed"}


class Arrangement(StrEnum):
    """Which cells the axes of a study span."""

    one_factor_at_a_time = "one_factor_at_a_time"
    factorial = "factorial"


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is studied.

    Attributes:
        name: names the table, the queue and the tracker's group.
        description: what the study asks, one paragraph.
        base: fixed values by dotted name.
        arrangement: one factor at a time, or every combination.
        axes: dotted name to levels; the first level is the baseline.
        seeds: the same in every cell, so that cells are compared in pairs.
        metric: the table's main metric; empty means the task's own.
        split: the split the table shows; empty means the first test split of the data.
        reported: what was published of the levels, by source; see `ablations.reported`.
        search: what is tuned in every arm before its seeds run; None for nothing.
    """

    name: str
    description: str = ""
    base: Mapping[str, Scalar]
    arrangement: Arrangement = Arrangement.one_factor_at_a_time
    axes: Mapping[str, tuple[Scalar, ...]]
    seeds: tuple[int, ...] = (1,)
    metric: str = ""
    split: str = ""
    reported: tuple[Mapping[str, Any], ...] = ()
    search: Search | None = None

    @property
    def baseline(self) -> dict[str, Scalar]:
        """The first level of every axis."""
        return {axis: levels[0] for axis, levels in self.axes.items()}


def load_study(name_or_path: str, *, overrides: Mapping[str, Any] | None = None) -> Study:
    """Read a study.

    Args:
        name_or_path: a file, or the name of a shipped study.
        overrides: values by dotted name that replace the study's fixed values.

    Raises:
        ValueError: no such study, or a key, name, value or level in it that is not legal.
    """
    text = study_text(name_or_path)
    if text is None:
        raise ValueError(
            f"{name_or_path!r} is neither a file nor a shipped study; shipped: "
            f"{', '.join(shipped_studies())}"
        )
    name = Path(name_or_path).stem
    try:
        return parse_study(read_mapping(text), name=name, overrides=overrides or {})
    except ValueError as error:
        raise ValueError(f"{name_or_path}: {error}") from None


def task_asked_for(words: Sequence[str]) -> Task:
    """The task that a command line is about: by its flag, else by the file that it names.

    Raises:
        ValueError: the flag names no task. What is wrong with a file is said when it is read.
    """
    for word, following in pairwise([*words, ""]):
        if word == "--task" or word.startswith("--task="):
            return parse_value("task", word.partition("=")[2] or following)
    for word in words:
        try:
            text = study_text(word.removeprefix("--config="))
            content = read_mapping(text or "")
            grid = (content.get("parameters") or {}).get("task") or {}
            named = (content.get("base") or {}).get("task") or grid.get("value")
            return parse_value("task", named or content["task"])
        except (ValueError, AttributeError, KeyError):
            continue
    return Task.translation


def parse_study(content: Mapping[str, Any], *, name: str, overrides: Mapping[str, Any]) -> Study:
    """Build a study from the content of its file, either of the two forms.

    Raises:
        ValueError: a key, name, value or level that is not legal.
    """
    form = _grid_fields(content) if "parameters" in content else _study_fields(content)
    taken = overrides.keys() & form["axes"].keys()
    if taken:
        raise ValueError(f"{min(taken)} is an axis of this study and cannot be set as well")
    if "seed" in {*overrides, *form["base"], *form["axes"]}:
        raise ValueError("seed: seeds are listed under 'seeds', not set or used as an axis")
    study = Study(name=str(content.get("name", name)), **form)
    if not re.fullmatch(r"[\w.-]+", study.name):
        raise ValueError(f"name: {study.name!r}; use letters, digits, '_', '-' and '.'")
    return _checked(replace(study, base={**study.base, **overrides}))


def _study_fields(content: Mapping[str, Any]) -> dict[str, Any]:
    _refuse_unknown(content, STUDY_KEYS)
    choice = content.get("design", Arrangement.one_factor_at_a_time)
    if choice not in list(Arrangement):
        raise ValueError(f"design: {choice!r} is not legal; legal: {', '.join(Arrangement)}")
    axes, base = content.get("axes") or {}, content.get("base") or {}
    if not isinstance(axes, dict) or not isinstance(base, dict):
        raise ValueError("'base' and 'axes' hold dotted names with their values")
    for path, value in {**base, **axes}.items():
        if isinstance(value, dict):
            names = ", ".join(f"{path}.{name}" for name in value)
            raise ValueError(f"{path}: the names of a study are dotted; write {names}")
    return {
        "description": str(content.get("description", "")).strip(),
        "base": base,
        "arrangement": Arrangement(choice),
        "axes": axes,
        "seeds": content.get("seeds", [1]),
        "metric": content.get("metric", ""),
        "split": content.get("split", ""),
        "reported": content.get("reported") or (),
        "search": content.get("search"),
    }


def _grid_fields(content: Mapping[str, Any]) -> dict[str, Any]:
    _refuse_unknown(content, GRID_KEYS)
    if content.get("method") != "grid":
        raise ValueError(f"method: {content.get('method')!r}; only 'grid' says which cells to run")
    axes: dict[str, Any] = {}
    base: dict[str, Any] = {}
    for path, parameter in content["parameters"].items():
        if not isinstance(parameter, dict) or parameter.keys() not in ({"values"}, {"value"}):
            raise ValueError(f"{path}: give 'values: [...]' or 'value: ...'; a grid has no ranges")
        if "values" in parameter:
            axes[path] = parameter["values"]
        else:
            base[path] = parameter["value"]
    seeds = axes.pop("seed", None) or [base.pop("seed", 1)]
    return {
        "description": str(content.get("description", "")).strip(),
        "base": base,
        "arrangement": Arrangement.factorial,
        "axes": axes,
        "seeds": seeds,
        "metric": (content.get("metric") or {}).get("name", ""),
    }


def _checked(study: Study) -> Study:
    """The same study with every value parsed, or an error that names the first illegal one."""
    task = parse_value("task", study.base.get("task", Task.translation))

    def legal(path: str, value: Any) -> Scalar:
        return plain(parse_value(path, value, task=task))

    for path, values in study.axes.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"{path}: expected a list of values, found {values!r}")
    if study.metric and study.metric not in task.value.metrics:
        legal_metrics = ", ".join(task.value.metrics)
        raise ValueError(f"metric: {study.metric!r} is not measured; legal: {legal_metrics}")
    fixed_axes = study.base.keys() & study.axes.keys()
    if fixed_axes:
        raise ValueError(f"{min(fixed_axes)} is both a fixed value and an axis")
    study = _with_references(study, task)
    axes = {path: tuple(legal(path, v) for v in values) for path, values in study.axes.items()}
    seeds = distinct_seeds(study.seeds, name="seeds")
    search = _checked_search(study, task, seeds)
    return replace(
        study,
        search=search,
        metric=study.metric or task.value.metrics[0],
        reported=checked_reported(study.reported, axes, metrics=task.value.metrics, legal=legal),
        base={path: legal(path, value) for path, value in study.base.items()},
        axes=axes,
        seeds=seeds,
    )


def _checked_search(study: Study, task: Task, seeds: tuple[int, ...]) -> Search | None:
    if study.search is None:
        return None
    search = parse_search(study.search, task=task, seeds=seeds)
    for path in search.ranges:
        if path in study.base or path in study.axes:
            raise ValueError(f"{path} is searched, and cannot be an axis or be set as well")
    return search


def _with_references(study: Study, task: Task) -> Study:
    """The same study with what costs seconds and every table of this task should show."""
    told = study.base.keys() | study.axes.keys()
    factorial = study.arrangement is Arrangement.factorial
    if factorial or not study.axes or told & task.value.references.keys():
        return study
    added: dict[str, Any] = {path: list(v) for path, v in task.value.references.items()}
    return replace(study, axes={**study.axes, **added})


def _refuse_unknown(content: Mapping[str, Any], legal: tuple[str, ...]) -> None:
    for key in content:
        if key not in legal:
            place = "" if key.partition(".")[0] not in SETTINGS else " (settings go under 'base')"
            raise ValueError(f"{key!r} is no key of a study file{place}; legal: {', '.join(legal)}")

"""What there is to choose from, in words taken from the code."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum

import docstring_parser

from ablations.config import RunConfig, config_from_flat, flatten, paths, sections
from ablations.tasks import Task
from lightning_modules.axes.strategies import Strategy
from lightning_modules.axis import Axis
from lightning_modules.design import CONSTRAINTS


def summary(kind: type) -> str:
    """The first sentence of a class's docstring, without the call it documents."""
    return re.split(r": `|\.\s|\.$", inspect.getdoc(kind) or "", maxsplit=1)[0]


def describe_paths(task: Task = Task.translation) -> dict[str, str]:
    """One line on every dotted name of a config of this task: what it is, and its default."""
    described = _attributes(RunConfig)
    for name, section in sections(task).items():
        if isinstance(section, type) and is_dataclass(section):
            own = _attributes(section)
            described.update({f"{name}.{field}": text for field, text in own.items()})
    defaults = flatten(config_from_flat({"task": task}))
    lines = {}
    for path, kind in paths(task).items():
        about = summary(kind) if issubclass(kind, Axis) else described.get(path, "")
        lines[path] = f"{about.rstrip('.')} (default: {str(defaults[path]) or 'empty'})".strip()
    return lines


def values_of(kind: type) -> str:
    """How the values of a path are written: its levels, or its kind of number."""
    if issubclass(kind, Enum):
        return f"{{{','.join(kind.__members__)}}}"
    return kind.__name__.upper()


def all_axes() -> dict[str, type[Axis]]:
    """Every axis of every task, by dotted name."""
    kinds = {path: kind for task in Task for path, kind in paths(task).items()}
    return {path: kind for path, kind in kinds.items() if issubclass(kind, Axis)}


def describe_axes() -> Iterator[str]:
    """Lines of Markdown that list the axes with their levels, then the constraints.

    Strategies are no axis of a config: a run measures them all, each as a split.
    """
    listed: dict[str, type[Axis]] = {**all_axes(), "split continuation.*": Strategy}
    for path, axis in listed.items():
        yield from (f"## {path}", "", f"{_contract(axis)}.", "")
        for number, level in enumerate(axis):
            yield _described(level, baseline=number == 0)
        yield ""
    yield from ("## Constraints", "", "A combination that breaks one of them is refused.", "")
    for constraint in CONSTRAINTS:
        sentence = constraint.sentence.replace("{", "<").replace("}", ">")
        yield f"- {constraint.name}: `{sentence}`"


def _contract(axis: type[Axis]) -> str:
    """The first paragraph of an axis's docstring, in one line."""
    text = (inspect.getdoc(axis) or "").split("\n\n")[0]
    return " ".join(text.split()).rstrip(".")


def _described(level: Axis, *, baseline: bool) -> str:
    mark = " (baseline)" if baseline else ""
    breaks = f" Breaks {', '.join(sorted(level.value.breaks))}." if level.value.breaks else ""
    return f"- **{level.name}**{mark}: {level.value.why}. [{level.value.source}]{breaks}"


def _attributes(section: type) -> dict[str, str]:
    parsed = docstring_parser.parse(inspect.getdoc(section) or "").params
    return {item.arg_name: " ".join((item.description or "").split()) for item in parsed}

"""The plan of a study as it was last made, for commands that only need to know its cells.

Making a plan takes the axes, and those take torch, whose import is longer than all that
`ablate status` does. So the cells are kept beside the queue, with what they were made from: the
text of the study, the flags, the code, and the files of its data. Where one of these has changed,
the plan is made again; a kept plan may be deleted at any time. Cheap to import.
"""

import contextlib
import hashlib
import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.arguments import located, overrides
from ablations.files import write_atomically
from ablations.study_files import study_text

if TYPE_CHECKING:
    from ablations.plan import Plan

ROOT = Path(__file__).parents[1]
ROOMS = ("lightning_modules", "data", "ablations")


@dataclass(frozen=True, kw_only=True)
class KeptCell:
    """What is kept of a cell; see `ablations.states.Planned`."""

    id: str
    changes: Mapping[str, Any]
    seed: int
    updates: int


@dataclass(frozen=True, kw_only=True)
class KeptPlan:
    """What is kept of a plan."""

    name: str
    cells: list[KeptCell]


def keep(plan: "Plan", arguments: Namespace) -> None:
    """Keep a plan, where there is a folder of runs; not one whose data are fetched."""
    data = sorted({getattr(cell.config.data, "path", "") for cell in plan.cells} - {""})
    if not arguments.runs.is_dir() or not all(Path(path).exists() for path in data):
        return
    cells = [
        {"id": c.id, "changes": c.changes, "seed": c.seed, "updates": c.updates} for c in plan.cells
    ]
    content = {"made_from": _made_from(arguments, data), "data": data, "name": plan.name}
    with contextlib.suppress(OSError):  # a folder that is only read has no use for it
        write_atomically(_file(arguments), json.dumps({**content, "cells": cells}))


def kept(arguments: Namespace) -> KeptPlan | None:
    """The plan that the arguments name, if it is kept and would be the same today."""
    try:
        content = json.loads(_file(arguments).read_bytes())
        if content["made_from"] != _made_from(arguments, content["data"]):
            return None
        cells = [KeptCell(**cell) for cell in content["cells"]]
        return KeptPlan(name=content["name"], cells=cells)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _file(arguments: Namespace) -> Path:
    return arguments.runs / "studies" / f"{Path(arguments.study).stem}.plan.json"


def _made_from(arguments: Namespace, data: list[str]) -> str:
    """A digest of all that decides which cells there are."""
    asked = {name: str(value) for name, value in located(overrides(arguments)).items()}
    files = [*_listed(*(ROOT / room for room in ROOMS)), *_listed(*map(Path, data))]
    text = json.dumps([study_text(arguments.study), sorted(asked.items()), files])
    return hashlib.sha256(text.encode()).hexdigest()


def _listed(*places: Path) -> Iterator[tuple[str, int, int]]:
    """Every file in these places, with its size and the time of its last change."""
    for place in places:
        for file in [place] if place.is_file() else sorted(place.rglob("*")):
            if file.is_file() and file.suffix != ".pyc":
                found = file.stat()
                yield str(file), found.st_size, found.st_mtime_ns

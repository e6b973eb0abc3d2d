"""The first 20 updates of a training of each task, kept in `curves.json`.

    python -m tests.golden.curves

makes them anew. That is right where a change is meant to change what a run computes, and the
CHANGELOG says so. Those with dropout change with the stream of its masks, too; those without don't.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.ablations.runs import TASKS, curve, prepared, run

KEPT = Path(__file__).with_name("curves.json")
UPDATES = {"budget__max_steps": 20, "budget__validate_every": 5, "optim__accumulate": 1}
WITHOUT = {"dims__dropout": 0.0}
WITH = {"dims__attention_dropout": 0.1, "dims__feedforward_dropout": 0.1}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{task: (task, WITHOUT) for task in TASKS},
    "translation with dropout": ("translation", WITH),
}

Curve = dict[str, list[float]]


def made(case: str, folder: Path) -> Curve:
    """The losses of each update, and those of each validation."""
    task, changes = CASES[case]
    result = run(prepared(task, folder, **UPDATES, **changes), folder)
    rows = curve(result, folder)
    return {
        name: [float(row[name]) for row in rows if row[name]]
        for name in ("train_loss", "validation_loss")
    }


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder:
        found = {case: made(case, Path(folder)) for case in CASES}
    KEPT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

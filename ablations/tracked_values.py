"""What Weights & Biases gets of a run: its name and tags, its curve, its summary, its table."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ablations.config import RunConfig

LONGEST_TAG = 64  # what W&B takes
FACTS = (
    *("status", "diverged_at_step", "parameters", "steps", "target_tokens", "tokens_per_second"),
    *("flops_per_target", "peak_memory_bytes", "resumed", "hardware", "git_commit"),
)
TABLE = ("split", "length", "metric", "value", "signature", "undefined")


def run_name(config: RunConfig, identity: str, changes: Mapping[str, Any] | None) -> str:
    """What differs from the baseline, and the seed: `norm_position=post seed=2`.

    A run of no study (`changes` is None) is named by its identity instead.
    """
    if changes is None:
        return f"{identity} seed={config.seed}"
    return " ".join([*_differences(changes), f"seed={config.seed}"])


def run_tags(changes: Mapping[str, Any] | None) -> list[str]:
    """What differs from the baseline, a tag each; none for a run of no study."""
    return [] if changes is None else [text[:LONGEST_TAG] for text in _differences(changes)]


def summary(result: Mapping[str, Any]) -> dict[str, Any]:
    """What the W&B run's summary says of a result.

    Facts, `seconds/PART`, and `final/SPLIT/METRIC`, a split with a length as `test@16`; the metrics
    of the first test split also by their bare names, for sweeps to find them.
    """
    values: dict[str, Any] = {name: result.get(name) for name in FACTS}
    values |= {f"seconds/{name}": value for name, value in result["seconds"].items()}
    tests = [row for row in result["metrics"] if row["split"] != "validation"]
    for row in result["metrics"]:
        values[f"final/{_split(row)}/{row['metric']}"] = row["value"]
    first = [row for row in tests if _split(row) == _split(tests[0])]
    return {**values, **{row["metric"]: row["value"] for row in first}}


def evaluation_rows(result: Mapping[str, Any]) -> list[Iterable[Any]]:
    """All that was measured, and why something was not, as rows of `TABLE`."""
    undefined = [{**part, "undefined": part["why"]} for part in result["undefined"]]
    return [[row.get(name) for name in TABLE] for row in [*result["metrics"], *undefined]]


def recorded_curve(file: Path) -> Iterator[tuple[dict[str, float], int]]:
    """The rows of a learning curve's file, named as they are while the run trains."""
    if not file.is_file():
        return
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            step = int(row["step"])
            yield {"train/loss": float(row["train_loss"]), "lr": float(row["lr"])}, step
            if row["validation_loss"]:
                yield {"validation/loss": float(row["validation_loss"])}, step


def _differences(changes: Mapping[str, Any]) -> list[str]:
    found = [f"{path.rpartition('.')[2]}={value}" for path, value in changes.items()]
    return found or ["baseline"]


def _split(row: Mapping[str, Any]) -> str:
    return row["split"] if row["length"] is None else f"{row['split']}@{row['length']}"

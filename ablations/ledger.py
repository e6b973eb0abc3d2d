"""The records of all runs as one tidy frame: the only thing that analysis reads.

Standard library, pandas and orjson only.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ablations.identity import identity, unsaid

if TYPE_CHECKING:
    import pandas

SCHEMA = 1
STATUSES = ("finished", "diverged")
NEEDED: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "status": str,
    "config": dict,
    "data_fingerprint": str,
    "tokenizer_hash": str,
    "metrics": list,
    "parameters": int,
    "steps": int,
    "target_tokens": int,
    "seconds": dict,
    "tokens_per_second": (int, float),
    "hardware": str,
    "threads": int,
    "command": str,
    "started": str,
    "ended": str,
}
FACTS = (
    "status",
    "diverged_at_step",
    "parameters",
    "flops_per_target",
    "steps",
    "target_tokens",
    "tokens_per_second",
    "peak_memory_bytes",
    "data_fingerprint",
    "tokenizer_hash",
    "hardware",
    "threads",
    "resumed",
    "batch_parts",
    "devices",
    "git_commit",
    "code_version",
    "command",
    "started",
    "ended",
)
SECONDS = ("train", "evaluate", "total")
MEASURED = ("metric", "split", "length", "value", "signature")
UNDEFINED = ("split", "length", "why")


@dataclass(frozen=True)
class Ledger:
    """What was recorded.

    Attributes:
        frame: one row per run, metric, split and length; a diverged run has one row without a
            metric, and so has each split and length at which a run's design isn't defined.
            Columns: `run`, the facts of the run (`FACTS`), `seconds_train`, `seconds_evaluate`,
            `seconds_total`, `metric`, `split`, `length`, `value`, `signature`, `undefined` (why,
            where that is so), and every value of the config by its dotted name.
        problems: one line for each record that was left out, and why.
    """

    frame: "pandas.DataFrame"
    problems: list[str]


def load(runs_dir: str | Path, ids: Iterable[str] | None = None) -> Ledger:
    """Read the records of a folder of runs.

    Args:
        runs_dir: the folder; it may be missing or empty.
        ids: only these runs; all of them when None.
    """
    runs: list[dict[str, Any]] = []
    measured: list[dict[str, Any]] = []
    counts: list[int] = []
    problems: list[str] = []
    for file in _result_files(Path(runs_dir), ids):
        try:
            record, config = _read(file)
        except ValueError as error:
            problems.append(f"{file}: {error}")
            continue
        rows = _measured(record)
        runs.append(_facts(record, config))
        measured += rows
        counts.append(len(rows))
    return Ledger(_frame(runs, measured, counts), problems)


def _frame(
    runs: list[dict[str, Any]], measured: list[dict[str, Any]], counts: list[int]
) -> "pandas.DataFrame":
    """Each run beside its measured rows: what all of them share is put into columns once."""
    import pandas

    facts = ["run", *FACTS, *(f"seconds_{name}" for name in SECONDS)]
    named: dict[str, Any] = {}
    for run in runs:
        if not run.keys() <= named.keys():
            named.update(run)
    configured = [name for name in named if name not in facts]
    of_run = pandas.DataFrame(runs, columns=[*facts, *configured])
    rows = pandas.DataFrame(measured, columns=[*MEASURED, "undefined"])
    repeated = of_run.iloc[[place for place, n in enumerate(counts) for _ in range(n)]]
    whole = pandas.concat([repeated.reset_index(drop=True), rows], axis="columns")
    return whole[[*facts, *rows.columns, *configured]]


def read_record(file: Path) -> dict[str, Any]:
    """Read one `result.json` and check that it is whole and what its folder says.

    Raises:
        ValueError: it cannot be read, is not a record, or is the record of another config.
    """
    return _read(str(file))[0]


def _read(file: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A record that is whole, and its config by dotted names."""
    try:
        with open(file, "rb") as opened:
            record = _parsed(opened.read())
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from None
    except ValueError:
        raise ValueError("no valid JSON; it was cut off or edited") from None
    _check_form(record)
    if record["id"] != os.path.basename(os.path.dirname(file)):
        raise ValueError(f"is the record of run {record['id']}, not of its folder")
    config = flat(record["config"])
    recomputed = identity(config, record["data_fingerprint"])
    if recomputed != record["id"]:
        raise ValueError(
            f"config or data belong to run {recomputed}; the record was edited, or made by a "
            "version that told runs apart in another way"
        )
    return record, config


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)  # takes NaN, too, which a record may hold


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded config by dotted names."""
    values: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            start = f"{name}."
            for key, inner in value.items():
                values[start + key] = inner
        else:
            values[name] = value
    return values


def _result_files(runs_dir: Path, ids: Iterable[str] | None) -> list[str]:
    if ids is not None:
        folders = [str(runs_dir / identity) for identity in dict.fromkeys(ids)]
    elif runs_dir.is_dir():
        folders = sorted(entry.path for entry in os.scandir(runs_dir))
    else:
        folders = []
    files = (os.path.join(folder, "result.json") for folder in folders)
    return [file for file in files if os.path.exists(file)]


def _check_form(record: Any) -> None:
    if not isinstance(record, dict):
        raise ValueError("is no record of a run")
    if record.get("schema") != SCHEMA:
        raise ValueError(f"schema is {record.get('schema')!r}; this version reads {SCHEMA}")
    for name, kind in NEEDED.items():
        value = record.get(name)
        if not isinstance(value, kind) or value is True or value is False:
            raise ValueError(f"{name} is {_short(value)}; the record was edited")
    if record["status"] not in STATUSES:
        raise ValueError(f"status is {record['status']!r}; legal: {', '.join(STATUSES)}")
    for name in SECONDS:
        if not isinstance(record["seconds"].get(name), int | float):
            raise ValueError(f"seconds.{name} is missing; the record was edited")
    _check_metrics(record)


def _check_metrics(record: dict[str, Any]) -> None:
    if not isinstance(record["config"].get("task"), str):
        raise ValueError("config names no task; the record was edited")
    if record["status"] == "finished" and not record["metrics"]:
        raise ValueError("finished without a metric; the record was edited")
    for row in record["metrics"]:
        if not isinstance(row, dict) or row.keys() != set(MEASURED):
            raise ValueError(f"metrics hold {_short(row)}; the record was edited")
        if not isinstance(row["value"], int | float):
            raise ValueError(f"{row['metric']} is {_short(row['value'])}, no number")
    undefined = record.get("undefined", [])
    for part in undefined if isinstance(undefined, list) else [undefined]:
        if not isinstance(part, dict) or part.keys() != set(UNDEFINED):
            raise ValueError(f"undefined holds {_short(part)}; the record was edited")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _facts(record: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    run = {"run": record["id"], **{name: record.get(name) for name in FACTS}}
    for name in SECONDS:
        run[f"seconds_{name}"] = record["seconds"][name]
    return {**run, **unsaid(config["task"]), **config}


def _measured(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a run: what was measured, and what isn't defined; an empty one without any."""
    nothing = dict.fromkeys(MEASURED)
    undefined = [
        {**nothing, "split": part["split"], "length": part["length"], "undefined": part["why"]}
        for part in record.get("undefined", [])
    ]
    return [*record["metrics"], *undefined] or [nothing]

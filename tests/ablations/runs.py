"""Tiny runs of every task, and when two of them are the same."""

import csv
import io
from pathlib import Path
from typing import Any

import torch

from ablations.config import RunConfig, config_from_flat
from ablations.run import run_cell

SMALL = {
    "dims.d_model": 8,
    "dims.n_heads": 2,
    "dims.d_ff": 8,
    "dims.n_encoder_layers": 1,
    "dims.n_decoder_layers": 1,
    "dims.dropout": 0.2,
    "optim.warmup_steps": 4,
    "optim.accumulate": 2,
    "optim.average_last": 0.5,
    "budget.max_steps": 16,
    "budget.validate_every": 5,
}
TASKS: dict[str, dict[str, Any]] = {
    "translation": {
        "data.vocabulary_size": 200,
        "data.n_train": 60,
        "data.n_test": 4,
        "data.tokens_per_batch": 192,
    },
    "sequences": {
        "data.n_train": 50,
        "data.n_eval": 8,
        "data.batch_size": 10,
        "data.eval_lengths": "1x",
    },
    "forecasting": {"data.n_hours": 800, "data.lookback": 48, "data.batch_size": 120},
    "language_modeling": {
        "data.context_length": 8,
        "data.tokens_per_batch": 64,
        "data.eval_lengths": "1x",
        "data.n_prompts": 0,
    },
}


class Killed(BaseException):
    """Nothing in a run catches it."""


def config_of(task: str, **changes: Any) -> RunConfig:
    named = {path.replace("__", "."): value for path, value in changes.items()}
    return config_from_flat({"task": task, **SMALL, **TASKS[task], **named})


def prepared(task: str, folder: Path, **changes: Any) -> RunConfig:
    """The config, with text to read where the task needs some."""
    if task == "language_modeling":
        text = "".join(f"{n} and {n + 1} are {2 * n + 1}.\n" for n in range(40))
        (folder / "text.txt").write_text(text)
        changes["data__path"] = str(folder / "text.txt")
    return config_of(task, **changes)


def run(config: RunConfig, folder: Path, **options: Any) -> dict[str, Any]:
    return run_cell(config, runs_dir=folder, cache_dir=folder.parent / ".cache", **options)


def weights(result: dict[str, Any], folder: Path) -> dict[str, torch.Tensor]:
    content = torch.load(folder / result["id"] / "weights.pt", weights_only=True)
    return content["state_dict"]


def curve(result: dict[str, Any], folder: Path) -> list[dict[str, str]]:
    with (folder / result["id"] / "learning_curve.csv").open() as file:
        return list(csv.DictReader(file))


def untimed(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def assert_the_same(one: tuple[dict[str, Any], Path], two: tuple[dict[str, Any], Path]) -> None:
    before, after = weights(*one), weights(*two)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert untimed(curve(*one)) == untimed(curve(*two))
    for name in ("metrics", "steps", "target_tokens", "status"):
        assert one[0][name] == two[0][name]


def read(file: Path) -> dict[str, Any]:
    saved = file.read_bytes().partition(b"\n")[2]
    return torch.load(io.BytesIO(saved), weights_only=True)["checkpoint"]

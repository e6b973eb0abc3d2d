"""A finished run, opened again: its config, its module, and the data it was trained on."""

import difflib
from dataclasses import dataclass, replace
from pathlib import Path

import pytorch_lightning as pl

from ablations.config import RunConfig, config_from_flat
from ablations.ledger import flat, read_record
from ablations.task_runs.base import TaskRun
from ablations.task_runs.registry import make_task_run
from ablations.weights import load_module

SHOWN = 5


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run with a result and weights.

    Attributes:
        id: the name of its folder.
        config: the cell.
        module: with its weights, on the CPU and in evaluation mode.
        data_fingerprint: of the data it was trained on.
        tokenizer_hash: of the vocabulary; empty where there is none.
    """

    id: str
    config: RunConfig
    module: pl.LightningModule
    data_fingerprint: str
    tokenizer_hash: str

    def read_data(self, *, cache_dir: Path, path: str | None = None) -> TaskRun:
        """The task's part of the run, its data read.

        Args:
            cache_dir: where vocabularies and downloads are kept.
            path: where the data lie now; None for where they lay.

        Raises:
            ValueError: they cannot be read, or are not those of the run.
        """
        config = self._located(path)
        config.task.value.validate(config.data)
        if config.task.value.fingerprint(config.data) != self.data_fingerprint:
            raise ValueError(
                f"run {self.id} was trained on other data than these "
                f"({getattr(config.data, 'path', '') or 'generated'}); where they lie in a folder, "
                "name it with --data.path"
            )
        part = make_task_run(config, cache_dir=cache_dir)
        if part.tokenizer_hash != self.tokenizer_hash:
            raise ValueError(
                f"run {self.id} was trained with vocabulary {self.tokenizer_hash}, and here is "
                f"{part.tokenizer_hash}: token ids would mean other words; keep the .cache folder "
                "beside the run"
            )
        return part

    def _located(self, path: str | None) -> RunConfig:
        if path is None:
            return self.config
        if not hasattr(self.config.data, "path"):
            raise ValueError(f"--data.path: task {self.config.task.name} reads no files")
        return replace(self.config, data=replace(self.config.data, path=path))


def open_run(identity: str, *, runs_dir: Path) -> FinishedRun:
    """Open a run by its id.

    Raises:
        ValueError: there is no such run, or it has no weights.
    """
    folder = runs_dir / identity
    if not (folder / "result.json").is_file():
        raise ValueError(
            f"no finished run {identity!r} in {runs_dir}; {_there(runs_dir, identity)}"
        )
    try:
        record = read_record(folder / "result.json")
    except ValueError as error:
        raise ValueError(f"{folder / 'result.json'}: {error}") from None
    if record["status"] == "diverged":
        raise ValueError(
            f"run {identity} diverged at update {record['diverged_at_step']}, and weights are kept "
            "of finished runs only; choose another run"
        )
    if not (folder / "weights.pt").is_file():
        raise ValueError(
            f"run {identity} has no weights: {folder / 'weights.pt'} is missing; delete its folder "
            f"and run it again: {record['command']}"
        )
    return FinishedRun(
        identity,
        config_from_flat(flat(record["config"])),
        load_module(folder / "weights.pt"),
        record["data_fingerprint"],
        record["tokenizer_hash"],
    )


def _there(runs_dir: Path, identity: str) -> str:
    """The run that may be meant, or those that are there."""
    known = sorted(file.parent.name for file in runs_dir.glob("*/result.json"))
    if near := difflib.get_close_matches(identity, known, n=1, cutoff=0.5):
        return f"did you mean {near[0]}?"
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return f"there are {', '.join(known[:SHOWN])}{more}" if known else "no run is finished there"

"""A run that is killed at any moment goes on where its last checkpoint was.

Lightning keeps and restores the loops, the weights, the optimiser, the schedule and the state of
callbacks. What it leaves out is kept here: the generators of random numbers, and a place between
two updates, validation included, from which nothing is left out and nothing done twice.
"""

import hashlib
import io
import logging
import os
import pickle
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.io.checkpoint_io import CheckpointIO

from ablations.devices import gather
from ablations.files import write_atomically
from ablations.record import now
from ablations.stopping import Stop
from data.row_batching import process_share

UNREADABLE = (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError)
LATE = 0.1  # of the time between two checkpoints: worth one before the last update
log = logging.getLogger(__name__)


class StoppedError(Exception):
    """The run was asked to stop and has kept a checkpoint."""


def checkpoint_seconds() -> float:
    """Seconds between two checkpoints: `ABLATIONS_CHECKPOINT_SECONDS`, 300 unless set.

    Raises:
        ValueError: it is set to something else than a number of 0 or more.
    """
    text = os.environ.get("ABLATIONS_CHECKPOINT_SECONDS", "300")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise ValueError(
            f"ABLATIONS_CHECKPOINT_SECONDS is {text!r}; it must be a number of seconds, 0 or more"
        )
    return seconds


class CheckpointFile(CheckpointIO):
    """One file that is whole or not there, and counts only for those who wrote it.

    It holds plain values and tensors behind the hash of its content.

    Args:
        path: the file.
        owner: plain values that say which run, code and batches it belongs to.
    """

    def __init__(self, path: Path, *, owner: Mapping[str, Any]) -> None:
        self.path, self.owner = path, dict(owner)
        self._found: dict[str, Any] | None = None

    def find(self) -> dict[str, Any] | None:
        """The checkpoint to go on from; None without one. Why one is of no use is said."""
        self._found = None
        try:
            self._found = self._content()
        except FileNotFoundError:
            pass
        except (OSError, *UNREADABLE) as error:
            log.warning("%s is ignored, the run starts over: %s", self.path, error)
        return self._found

    def _content(self) -> dict[str, Any]:
        digest, _, saved = self.path.read_bytes().partition(b"\n")
        if hashlib.sha256(saved).hexdigest().encode() != digest:
            raise ValueError("it is damaged")
        content = torch.load(io.BytesIO(saved), map_location="cpu", weights_only=True)
        for name, value in self.owner.items():
            if content["owner"].get(name) != value:
                there = content["owner"].get(name)
                raise ValueError(f"its {name} is {there}, here it is {value}")
        return content["checkpoint"]

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None
    ) -> None:
        """Replace the file by this checkpoint."""
        saved = io.BytesIO()
        torch.save({"owner": self.owner, "checkpoint": checkpoint}, saved)
        content = saved.getvalue()
        write_atomically(self.path, hashlib.sha256(content).hexdigest().encode() + b"\n" + content)

    def load_checkpoint(
        self, path: Any, map_location: Any | None = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """What `find` found."""
        assert self._found is not None
        return self._found

    def remove_checkpoint(self, path: Any = None) -> None:
        """Remove the file, and what kills have left of others."""
        self.path.unlink(missing_ok=True)
        for rest in self.path.parent.glob(f".{self.path.name}.*"):
            rest.unlink(missing_ok=True)


class Checkpoints(pl.Callback):
    """Keeps a checkpoint from time to time, always between two updates.

    Args:
        file: where; also the Trainer's plugin for checkpoints.
        seconds: between two of them; 0 keeps one before each update.
        stop: once it is asked, the run keeps a checkpoint and raises `StoppedError`.
        kept: called after each.
        parts: into how many each batch is cut, at least; a checkpoint may know of more.

    Attributes:
        parts: into how many each batch is cut.
        path_to_restore: the checkpoint to go on from, if any, for `Trainer.fit`.
        resumed: how often the training went on from a checkpoint.
        started: when the run began, as text.
    """

    def __init__(
        self,
        file: CheckpointFile,
        *,
        seconds: float,
        stop: Stop,
        kept: Callable[[], None],
        parts: int,
    ) -> None:
        self.file, self.seconds, self.stop, self.kept = file, seconds, stop, kept
        found = file.find()
        self.path_to_restore = None if found is None else file.path
        self.parts = (
            parts if found is None else max(parts, found["callbacks"]["Checkpoints"]["parts"])
        )
        self.started, self.resumed = now(), 0
        self._began = self._last = time.monotonic()
        self._random: dict[str, Any] | None = None

    def seconds_so_far(self) -> float:
        """Seconds of the run, without those lost to kills or spent waiting."""
        return time.monotonic() - self._began

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._last = time.monotonic()
        self.stop.listen()  # Lightning's own handler would leave between two micro-batches

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Restore the generators after a restart; keep a checkpoint when one is due."""
        if self._random is not None:
            set_random_state(self._random)
            self._random = None
            # Lightning counts the update before a validation once more.
            trainer.fit_loop.epoch_loop._batches_that_stepped = trainer.global_step
        if batch_idx % trainer.accumulate_grad_batches:
            return
        # Together: with several processes all keep one or none does.
        decide = trainer.strategy.reduce_boolean_decision
        if not decide(self.stop.asked or self._is_due(trainer), all=False):
            return
        stopping = decide(self.stop.asked, all=False)
        trainer.save_checkpoint(self.file.path)
        self._last = time.monotonic()
        self.kept()
        if stopping:
            raise StoppedError

    def _is_due(self, trainer: pl.Trainer) -> bool:
        """A later kill, while the run is evaluated, then costs one update only."""
        waited = time.monotonic() - self._last
        is_last = trainer.global_step == trainer.max_steps - 1
        return waited >= self.seconds or (is_last and waited >= self.seconds * LATE)

    def state_dict(self) -> dict[str, Any]:
        """The generators of random numbers of every process, and how often the run went on."""
        return {
            "random": gather(random_state()),
            "parts": self.parts,
            "resumed": self.resumed,
            "started": self.started,
            "seconds": self.seconds_so_far(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Remember them until the first batch: until then others may draw from them."""
        self._random = state_dict["random"][process_share()[0]]
        self.resumed = state_dict["resumed"] + 1
        self.started = state_dict["started"]
        self._began -= state_dict["seconds"]

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Take back the batch that has been fetched but not yet worked on."""
        loop = checkpoint["loops"]["fit_loop"]
        progress = loop["epoch_loop.batch_progress"]
        progress["total"]["ready"] -= 1
        progress["current"]["ready"] -= 1
        progress["is_last_batch"] = False
        for loader in loop["state_dict"]["combined_loader"]:
            loader["handed_out"] -= 1

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Count in parts of batches, of which there may be more now."""
        factor = self.parts // checkpoint["callbacks"][self.state_key]["parts"]
        loop = checkpoint["loops"]["fit_loop"]
        progress = loop["epoch_loop.batch_progress"]
        for counts in (
            progress["total"],
            progress["current"],
            *loop["state_dict"]["combined_loader"],
        ):
            counts.update({name: count * factor for name, count in counts.items()})


def random_state() -> dict[str, Any]:
    """The state of every generator that this process draws from, as plain values and tensors."""
    numbers = np.random.get_state(legacy=False)
    numbers["state"]["key"] = numbers["state"]["key"].tolist()
    return {
        "python": random.getstate(),
        "numpy": numbers,
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    """Bring every global generator back to where it was."""
    numbers = state["numpy"]
    key = np.array(numbers["state"]["key"], dtype=np.uint32)
    random.setstate(state["python"])
    np.random.set_state({**numbers, "state": {**numbers["state"], "key": key}})
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available() and state["cuda"] is not None:  # it may come from a CPU
        torch.cuda.set_rng_state(state["cuda"])

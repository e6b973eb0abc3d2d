"""What a worker is told wherever it runs, and which engines can place it."""

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

PACKAGES = {"ray": "ray", "slurm": "submitit"}  # by engine, which is the name of its extra, too
LAUNCHERS = ("local", *PACKAGES)


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a worker has to do.

    Attributes:
        name: the study.
        runs_dir: the folder of the runs, by its full path.
        storage: the address of the queue; None for the file in the folder of the runs.
        wandb: whether the runs are logged to Weights & Biases, too.
        devices: how many train one cell.
    """

    name: str
    runs_dir: Path
    storage: str | None
    wandb: bool
    devices: int

    def work(self) -> int:
        """Run cells in this process until none is left, and return the exit code.

        Raises:
            KeyboardInterrupt: it was stopped.
        """
        from ablations.worker import join

        return join(
            self.name,
            self.runs_dir,
            wandb=self.wandb,
            storage=self.storage,
            devices=self.devices,
        )


class Member(Protocol):
    """A worker, seen from the launcher.

    Attributes:
        name: what messages call it.
        log: where its output is, or why there is none.
    """

    name: str
    log: Any

    def start(self) -> None:
        """Start it, for the first time or anew."""

    def poll(self) -> int | None:
        """Its exit code; None while it works or waits for a place."""

    def leave(self) -> None:
        """Ask it to keep a checkpoint and give its cell back."""

    def end(self) -> None:
        """End it at once."""


def engine(launcher: str) -> Any:
    """The module of a launcher other than `local`.

    It has `check(storage)`, which raises ValueError, and `team(order, count=)`, which starts
    `Member`s.

    Raises:
        ValueError: what it needs is not installed.
    """
    package = PACKAGES[launcher]
    if importlib.util.find_spec(package) is None:
        raise ValueError(
            f"--launcher {launcher} needs {package}; install it with: "
            f"pip install 'transformer-ablations[{launcher}]'"
        )
    return importlib.import_module(f"ablations.launchers.{launcher}")


def check_shared(storage: str | None, *, launcher: str, machines: int) -> None:
    """Refuse a queue that several machines can't share: locks of SQLite don't hold between them.

    Raises:
        ValueError: it is a SQLite file, and there are several machines.
    """
    if machines > 1 and (storage is None or storage.startswith("sqlite")):
        raise ValueError(
            f"--launcher {launcher} has {machines} machines, and the queue is a SQLite file, which "
            "is safe on one only; name a database with "
            "--storage postgresql+psycopg://USER@HOST:PORT/DATABASE"
        )

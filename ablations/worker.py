"""One worker: starts once, runs cells of a queue until none is left."""

import argparse
import os
import sys
import threading
import time
import traceback
from pathlib import Path

from ablations.config import config_from_flat
from ablations.files import create_once
from ablations.queue import Queue

POLL_SECONDS = 1.0
RENEW = 75  # exit code of a worker whose GPU context is spoiled: a new one can go on


def queue_file(runs_dir: Path, name: str) -> Path:
    """Where the queue of a study is kept."""
    return runs_dir / "studies" / f"{name}.sqlite"


def work(name: str, runs_dir: Path, *, wandb: bool) -> int:
    """Run cells until none waits or runs, and return the exit code.

    A cell that another worker runs may come back, so a worker without a cell waits for that.
    """
    from ablations.run import run_cell
    from ablations.tracking import Tracker

    queue = Queue(queue_file(runs_dir, name), name=name)
    tracker = Tracker(runs_dir, enabled=wandb, group=name)
    while queue.states():
        claim = queue.claim()
        if claim is None:
            time.sleep(POLL_SECONDS)
            queue.reap()
            continue
        try:
            with queue.alive(claim):
                result = run_cell(
                    config_from_flat(claim.config),
                    runs_dir=runs_dir,
                    cache_dir=runs_dir / ".cache",
                    tracker=tracker,
                    changes=claim.changes,
                )
        except Exception as error:
            keep_failure(runs_dir / claim.id)
            queue.fail(claim)
            if _spoils_process(error):
                return RENEW
        else:
            queue.finish(claim, result)
    return 0


def keep_failure(folder: Path) -> None:
    """Write the traceback of the exception being handled to the next `failure-N.txt`."""
    number = 1
    while not create_once(folder / f"failure-{number}.txt", traceback.format_exc()):
        number += 1


def _spoils_process(error: Exception) -> bool:
    """Whether every later call to the GPU from this process fails, too."""
    import torch

    return isinstance(error, torch.AcceleratorError)


def _end_with(launcher: int) -> None:
    """End this process as soon as its launcher is gone, even by kill -9."""

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    """Entry point of the processes that `ablations.launch` starts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="the study")
    parser.add_argument("runs_dir", type=Path, help="the folder of the runs")
    parser.add_argument("launcher", type=int, help="the process that this one ends with")
    parser.add_argument("--wandb", action="store_true", help="log to Weights & Biases, too")
    arguments = parser.parse_args()
    _end_with(arguments.launcher)
    return work(arguments.name, arguments.runs_dir, wandb=arguments.wandb)


if __name__ == "__main__":
    sys.exit(main())

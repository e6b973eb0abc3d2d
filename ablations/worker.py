"""One worker: starts once, runs cells of a queue until none is left."""

import argparse
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ablations.config import config_from_flat
from ablations.files import create_once
from ablations.plan import Cell
from ablations.progress import ended, last_line, title
from ablations.queue import Claim, Queue
from ablations.stopping import PrunedError, Stop
from ablations.storage import parse_address, studies_in
from ablations.study_files import queue_file

POLL_SECONDS = 1.0
LEAVE_SECONDS = 60.0  # for the current update, once the launcher is gone
RENEW = 75  # exit code of a worker whose GPU context is spoiled: a new one can go on
LEFT = 76  # exit code of a worker that suspects its machine
TIME_UP = 77  # exit code of a worker whose place is taken from it: another place will do
SUSPICIOUS = 3  # cells that fail one after the other
STOPPING = (
    "stopping after this update, with a checkpoint; the cell goes back to the queue, and what is "
    "being evaluated is finished. Ctrl-C again stops now: nothing is lost."
)


def work(
    name: str,
    runs_dir: Path,
    *,
    wandb: bool,
    storage: str | None = None,
    stop: Stop | None = None,
    say: Callable[[str], None] = lambda line: None,
    devices: int = 1,
) -> int:
    """Run cells until none waits or runs, or until asked to stop, and return the exit code.

    A cell that another worker runs may come back, so a worker without a cell waits for that.

    Args:
        name: the study.
        runs_dir: the folder of the runs.
        wandb: whether the runs are logged to Weights & Biases, too.
        storage: the address of the queue; None for the file in the folder of the runs.
        stop: asks it to leave.
        say: is told a line for each cell that ends.
        devices: how many train one cell.

    Raises:
        ValueError: the storage cannot be used, or its study is that of another folder.
    """
    from ablations.run import run_cell
    from ablations.tracking import Tracker

    stop = stop or Stop()
    queue = open_queue(name, runs_dir, storage=storage)
    run = partial(
        run_cell,
        runs_dir=runs_dir,
        cache_dir=runs_dir / ".cache",
        tracker=Tracker(runs_dir, enabled=wandb, group=name),
        stop=stop,
        devices=devices,
    )
    failed: set[str] = set()
    while not stop.asked and queue.states():
        claim = queue.claim(place())
        if claim is None:
            time.sleep(POLL_SECONDS)
            queue.reap()
            continue
        try:
            result = _run_claimed(queue, claim, run)
        except KeyboardInterrupt:
            queue.give_back(claim)
            return 0
        except Exception as error:
            file = keep_failure(runs_dir / claim.id)
            again = "runs again" if queue.fail(claim) else "given up"
            say(f"failed, {again}: {title(_cell(claim))}: {last_line(file)} ({file})")
            failed.add(claim.id)
            if _spoils_process(error):
                return RENEW
        else:
            say(ended(_cell(claim), result))
            failed.clear()
        if len(failed) >= SUSPICIOUS and queue.others_work(place()):
            return LEFT
    return 0


def open_queue(name: str, runs_dir: Path, *, storage: str | None) -> Queue:
    """The queue of a study, in its file in the folder of the runs unless an address is given.

    Raises:
        ValueError: the storage cannot be used, or its study is that of another folder.
    """
    queue = Queue(storage or queue_file(runs_dir, name), name=name)
    if storage is not None:
        queue.belong(runs_dir)
    return queue


def join(
    name: str, runs_dir: Path, *, wandb: bool, storage: str | None = None, devices: int = 1
) -> int:
    """Work on a study that `ablate sweep` has put in a queue, from any shell or machine.

    Args:
        name: the study.
        runs_dir: the folder of the runs, the same as the sweep's.
        wandb: whether the runs are logged to Weights & Biases, too.
        storage: the address of the queue; None for the file in the folder of the runs.
        devices: how many train one cell.

    Returns:
        The exit code: 0, `RENEW` or `LEFT`.

    Raises:
        ValueError: there is no such study, or it is that of another folder.
        KeyboardInterrupt: it was stopped.
    """
    address = storage or queue_file(runs_dir, name)
    if name not in (known := studies_in(address)):
        there = f"there are {', '.join(known)}" if known else "it holds none"
        shown = parse_address(address)
        raise ValueError(f"no study {name!r} in {shown}; {there}; 'ablate sweep' puts one there")
    say = partial(print, flush=True)
    with Stop(STOPPING) as stop:
        code = work(
            name, runs_dir, wandb=wandb, storage=storage, stop=stop, say=say, devices=devices
        )
    if stop.asked:
        raise KeyboardInterrupt
    if not code:
        say(f"{name}: no cell waits or runs; 'ablate status {name}' says how they ended")
    else:
        print(f"this worker {leaving(code)}", file=sys.stderr)
    return code


def leaving(code: int) -> str:
    """Why a worker has ended, by its exit code."""
    if code == RENEW:
        return "has to be started anew: its GPU refuses further work"
    if code == LEFT:
        return f"left: {SUSPICIOUS} cells failed there in a row, while others work elsewhere"
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _cell(claim: Claim) -> Cell:
    return Cell(id=claim.id, config=config_from_flat(claim.config), changes=dict(claim.changes))


def _run_claimed(queue: Queue, claim: Claim, run: partial[dict]) -> dict[str, Any]:
    with queue.alive(claim):
        try:
            result = run(
                config_from_flat(claim.config),
                changes=claim.changes,
                kept=lambda: queue.progress(claim),
                pruning=claim.pruning,
            )
        except PrunedError as error:
            queue.drop(claim)
            return {"status": "pruned", "pruned": str(error)}
    queue.finish(claim, result)
    return result


def place() -> str:
    """The machine, and the GPU where there is one: what can be broken for one worker only."""
    return f"{socket.gethostname()} {os.environ.get('CUDA_VISIBLE_DEVICES', '')}".strip()


def keep_failure(folder: Path) -> Path:
    """Write the traceback of the exception being handled to the next `failure-N.txt`."""
    number = 1
    while not create_once(folder / f"failure-{number}.txt", traceback.format_exc()):
        number += 1
    return folder / f"failure-{number}.txt"


def _spoils_process(error: Exception) -> bool:
    """Whether every later call to the GPU from this process fails, too."""
    import torch

    return isinstance(error, torch.AcceleratorError)


def _end_with(launcher: int, stop: Stop) -> None:
    """Stop as soon as the launcher is gone, even by kill -9; at once where that takes too long."""

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(POLL_SECONDS)
        stop.ask()
        time.sleep(LEAVE_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    """Entry point of the processes that `ablations.launch` starts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="the study")
    parser.add_argument("runs_dir", type=Path, help="the folder of the runs")
    parser.add_argument("launcher", type=int, help="the process that this one ends with")
    parser.add_argument("--storage", help="the queue's address (a file in the folder)")
    parser.add_argument("--wandb", action="store_true", help="log to Weights & Biases, too")
    parser.add_argument("--devices", type=int, default=1, help="that train one cell")
    arguments = parser.parse_args()
    with Stop() as stop:
        _end_with(arguments.launcher, stop)
        return work(
            arguments.name,
            arguments.runs_dir,
            wandb=arguments.wandb,
            storage=arguments.storage,
            stop=stop,
            devices=arguments.devices,
        )


if __name__ == "__main__":
    sys.exit(main())

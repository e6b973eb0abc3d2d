"""The workers of a sweep, from start to end: processes of this machine, or placed elsewhere."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from ablations.launchers.order import Member, Order, engine
from ablations.plan import Cell
from ablations.progress import Progress
from ablations.queue import Queue
from ablations.stopping import Stop
from ablations.storage import parse_address
from ablations.study_files import queue_file
from ablations.worker import RENEW, TIME_UP, leaving, open_queue

POLL_SECONDS = 0.5
GPU_NAME = re.compile(r"\d+|(GPU|MIG)-.+")  # its number, or its identifier
ANEW = {RENEW: "its GPU refused further work", TIME_UP: "its time was up"}  # by exit code
LOOK_SECONDS = 2.0  # between two looks at the queue, which cost more than those at the processes
STOPPING = (
    "stopping: each worker ends its update, keeps a checkpoint and gives its cell back; what is "
    "being evaluated is finished; nothing is lost. Ctrl-C again stops now: checkpoints stay."
)


def launch(
    cells: Sequence[Cell],
    *,
    name: str,
    runs_dir: Path,
    workers: int,
    wandb: bool = True,
    storage: str | None = None,
    devices: int = 1,
    launcher: str = "local",
) -> None:
    """Run cells in worker processes, until each has a result or has failed for good.

    A worker that dies is named and not replaced; its cell goes back to the others. What is left
    when all have died is run by the same call again. Ctrl-C or SIGTERM lets the workers keep a
    checkpoint and give their cells back; a second Ctrl-C ends them at once.

    Args:
        cells: those without a result.
        name: the study.
        runs_dir: the folder of the runs.
        workers: processes; each gets its share of the cores, and its GPUs where there are any.
        wandb: whether the runs are logged to Weights & Biases, too.
        storage: the address of the queue; None for a file in the folder of the runs.
        devices: how many train one cell, each with a process that its worker starts.
        launcher: what places the workers: `local` on this machine, or one of the engines.

    Raises:
        ValueError: the storage, or the launcher, cannot be used.
        KeyboardInterrupt: it was stopped.
    """
    queue = open_queue(name, runs_dir, storage=storage)
    queue.reap()
    queue.fill(cells, done=lambda cell_id: (runs_dir / cell_id / "result.json").is_file())
    folder = runs_dir.resolve()
    address = parse_address(storage).render_as_string(hide_password=False) if storage else None
    order = Order(name=name, runs_dir=folder, storage=address, wandb=wandb, devices=devices)
    make = _local_team if launcher == "local" else engine(launcher).team
    team: list[Member] = [*make(order, count=min(workers, len(cells)))]
    try:
        with Progress(cells, runs_dir=runs_dir) as progress, Stop(STOPPING) as stop:
            _attend(team, queue, progress, stop)
    finally:
        for worker in team:
            worker.end()
        queue.reap()
    if stop.asked:
        raise KeyboardInterrupt


def _local_team(order: Order, *, count: int) -> list["Worker"]:
    words = [sys.executable, "-m", "ablations.worker", order.name, str(order.runs_dir)]
    words += [str(os.getpid()), f"--devices={order.devices}", *(["--wandb"] if order.wandb else [])]
    words += [f"--storage={order.storage}"] if order.storage else []
    file = queue_file(order.runs_dir, order.name)
    return [
        Worker(
            words,
            log=file.with_name(f"{order.name}.worker-{index}.log"),
            environment=worker_environment(index, count, devices=order.devices),
        )
        for index in range(count)
    ]


def _attend(team: list[Member], queue: Queue, progress: Progress, stop: Stop) -> None:
    """Watch the workers until all have ended; pass it on when asked to stop."""
    looked, told = 0.0, False
    while team:
        time.sleep(POLL_SECONDS)
        if stop.asked and not told:
            told = True
            for worker in team:
                worker.leave()
        _renew(team, progress, stop)
        if time.monotonic() - looked > LOOK_SECONDS:
            _look(queue, progress)
            looked = time.monotonic()
    for _ in range(2):  # a failure is told at the look after the one that found it
        _look(queue, progress)


class Worker:
    """A worker process and what starts it.

    Args:
        words: the command.
        log: the file that gets what it prints.
        environment: its environment variables.
    """

    def __init__(self, words: Sequence[str], *, log: Path, environment: dict[str, str]) -> None:
        self.words, self.log, self.environment = words, log, environment
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        self.start()

    def start(self) -> None:
        """Start the process, apart from the terminal: Ctrl-C is for the launcher."""
        with self.log.open("ab") as file:
            self.process = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=self.environment,
                start_new_session=True,
            )

    @property
    def name(self) -> str:
        """Its process."""
        return str(self.process.pid)

    def poll(self) -> int | None:
        """Its exit code; None while it works."""
        return self.process.poll()

    def leave(self) -> None:
        """Ask it to keep a checkpoint and give its cell back."""
        self.process.terminate()

    def end(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()


def _renew(team: list[Member], progress: Progress, stop: Stop) -> None:
    """Start workers anew that ask for it, and let go of those that have ended."""
    for worker in list(team):
        code = worker.poll()
        if code in ANEW and not stop.asked:
            progress.say(f"worker {worker.name} is replaced: {ANEW[code]}")
            worker.start()
        elif code is not None:
            team.remove(worker)
            if code != 0 and not (stop.asked and code == -signal.SIGTERM):
                progress.say(f"worker {worker.name} {leaving(code)}; its output: {worker.log}")


def _look(queue: Queue, progress: Progress) -> None:
    """Give back the cells of dead workers, and say what has ended."""
    for cell_id in queue.reap():
        progress.say(f"back in the queue, its worker died: {cell_id}")
    progress.update(queue.states(), queue.workers() if progress.is_live else {})


def worker_environment(index: int, workers: int, *, devices: int = 1) -> dict[str, str]:
    """The environment of one worker out of `workers`: its cores, and its GPUs where there are any.

    Threads are set to an even share of the cores: more threads than cores cost a multiple. A GPU
    is in two workers' hands only where there are too few.
    """
    threads = str(max(1, usable_cores() // workers))
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    gpus = usable_gpus()
    if gpus:
        first = index % max(1, len(gpus) // devices) * devices
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[first : first + devices])
    return environment


def usable_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_gpus() -> list[str]:
    """The names of the GPUs that this process may use, as CUDA_VISIBLE_DEVICES takes them."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        # As CUDA does: what is no name, -1 or a scheduler's NoDevFiles, ends the list.
        return list(takewhile(GPU_NAME.fullmatch, map(str.strip, visible.split(","))))
    import torch

    return [str(index) for index in range(torch.cuda.device_count())]

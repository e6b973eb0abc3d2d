"""Workers that Slurm places, each a job of its own that submitit submits.

What else a job needs (account, partition, time limit) is said by the SBATCH_* variables of Slurm.
"""

import os
import shutil
import signal
import subprocess
import time
from typing import Any

import submitit

from ablations.launchers.order import Order, check_shared
from ablations.worker import TIME_UP

LOOK_SECONDS = 10.0  # between two questions to Slurm, which is one for all users


def check(storage: str | None) -> None:
    """Refuse what can't work.

    Raises:
        ValueError: jobs can't be submitted here, or their machines can't share the queue.
    """
    if missing := [name for name in ("sbatch", "srun", "sinfo") if shutil.which(name) is None]:
        raise ValueError(
            f"--launcher slurm finds no {missing[0]}; it is for machines that submit Slurm's jobs"
        )
    check_shared(storage, launcher="slurm", machines=len({node for node, _ in _nodes()}))


def team(order: Order, *, count: int) -> list["SlurmWorker"]:
    """Submit so many jobs, each with a GPU, or a core where the partition has no GPU."""
    executor = submitit.SlurmExecutor(folder=order.runs_dir / "studies" / f"{order.name}.jobs")
    has_gpus = any("gpu" in devices for _, devices in _nodes())
    executor.update_parameters(
        job_name=f"ablate-{order.name}",
        time=None,  # submitit's own is five minutes
        cpus_per_task=order.devices,
        gpus_per_node=order.devices if has_gpus else None,
        setup=[f"export OMP_NUM_THREADS={order.devices} MKL_NUM_THREADS={order.devices}"],
        srun_args=[f"--cpus-per-task={order.devices}"],  # srun no longer takes it from sbatch
    )
    return [SlurmWorker(order, executor) for _ in range(count)]


def _nodes() -> set[tuple[str, str]]:
    """The machines of the partition that jobs go to, with their devices as Slurm names them."""
    asked = os.environ.get("SBATCH_PARTITION")
    words = ["sinfo", "--noheader", "--Node", "--format=%P %N %G"]
    words += [f"--partition={asked}"] if asked else []
    try:
        said = subprocess.run(words, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        raise ValueError(f"--launcher slurm: {error.stderr.strip()}") from None
    rows = [line.split() for line in said.stdout.splitlines()]
    return {(node, devices) for name, node, devices in rows if asked or name.endswith("*")}


class SlurmWorker:
    """A job that is a worker.

    Args:
        order: what it does.
        executor: submits it.
    """

    def __init__(self, order: Order, executor: "submitit.Executor") -> None:
        self.order, self._executor = order, executor
        self.start()

    def start(self) -> None:
        """Submit the job."""
        self._job: Any = self._executor.submit(work_in_job, self.order)
        self.name, self.log = f"of job {self._job.job_id}", self._job.paths.stderr
        self._looked, self._absent = time.monotonic(), 0

    def poll(self) -> int | None:
        """Its exit code; None while it works or waits for a place."""
        if self._job.paths.result_pickle.exists():
            try:
                return self._job.result()
            except submitit.core.utils.FailedJobError:
                return 1
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            self._absent = 0 if self._is_listed() else self._absent + 1
        return 1 if self._absent > 1 else None  # a shared disk may show the result late

    def _is_listed(self) -> bool:
        """Whether Slurm lists the job as not ended; True where it can't be asked."""
        words = ["squeue", "--noheader", "--me", "--format=%A"]
        said = subprocess.run(words, capture_output=True, text=True, check=False)
        return said.returncode != 0 or self._job.job_id in said.stdout.split()

    def leave(self) -> None:
        """Take it off Slurm's queue, or ask it to keep a checkpoint and give its cell back."""
        self._cancel("--state=PENDING")
        self._cancel("--state=RUNNING", "--signal=TERM")

    def end(self) -> None:
        """Have it killed."""
        self._cancel()

    def _cancel(self, *options: str) -> None:
        subprocess.run(["scancel", *options, self._job.job_id], capture_output=True, check=False)


def work_in_job(order: Order) -> int:
    """Be a worker in a job; `TIME_UP` when Slurm has warned that its time is up."""
    warned = []

    def warn(*_: Any) -> None:
        warned.append(True)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGUSR2, warn)
    # Lightning would take the processes of the job for those that train one cell.
    os.environ.pop("SLURM_NTASKS", None)
    try:
        return order.work()
    except KeyboardInterrupt:
        return TIME_UP if warned else 0

"""Workers that Ray places: tasks, which it starts again elsewhere when their machine is lost."""

import signal

import ray

from ablations.launchers.order import Order, check_shared


def check(storage: str | None) -> None:
    """Refuse what can't work.

    Raises:
        ValueError: no cluster is reached, or its machines can't share the queue.
    """
    _connect()
    alive = [node for node in ray.nodes() if node["Alive"]]
    machines = {node["NodeManagerHostname"] for node in alive}
    check_shared(storage, launcher="ray", machines=len(machines))


def team(order: Order, *, count: int) -> list["RayWorker"]:
    """Ask for so many workers, each with a GPU, or a core where the cluster has no GPU."""
    _connect()
    return [RayWorker(order, index) for index in range(count)]


def _connect() -> None:
    if ray.is_initialized():
        return
    try:
        ray.init(address="auto", log_to_driver=False, logging_level="warning")
    except ConnectionError as error:
        raise ValueError(f"--launcher ray: {error} 'ray start --head' starts one.") from None


class RayWorker:
    """A task that is a worker.

    Args:
        order: what it does.
        index: its number in the team.
    """

    def __init__(self, order: Order, index: int) -> None:
        self.order, self.name = order, f"{order.name}/{index}"
        self.log = f"'ray logs', task {self.name}"
        self.start()

    def start(self) -> None:
        """Submit the task."""
        devices = self.order.devices
        gpus = devices if ray.cluster_resources().get("GPU") else 0
        task = ray.remote(_work).options(name=self.name, num_cpus=devices, num_gpus=gpus)
        self._task = task.remote(self.order)

    def poll(self) -> int | None:
        """Its exit code; None while it works or waits for a place."""
        if not ray.wait([self._task], timeout=0)[0]:
            return None
        try:
            return ray.get(self._task)
        except ray.exceptions.TaskCancelledError:
            return -signal.SIGTERM
        except ray.exceptions.RayError as error:
            self.log = str(error).strip().splitlines()[-1]
            return 1

    def leave(self) -> None:
        """Interrupt it as Ctrl-C does."""
        ray.cancel(self._task)

    def end(self) -> None:
        """Kill its process."""
        ray.cancel(self._task, force=True)


def _work(order: Order) -> int:
    return order.work()

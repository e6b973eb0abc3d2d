"""A sweep on a Ray cluster of two nodes, of which one is killed while it works.

Run as `unshare ISOLATION python -m tests.ablations.ray_cluster STUDY RUNS`: Ray's servers listen on
every network there is, so they are given one of their own.
"""

import fcntl
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ablations.queue import Queue
from ablations.worker import queue_file

# A network of its own, and processes that end with the first one.
ISOLATION = ["--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 0x1
NODE = {
    "num_gpus": 0,
    "object_store_memory": 80 * 2**20,
    "include_dashboard": False,
    "dashboard_host": "127.0.0.1",
}


def raise_loopback() -> None:
    """Take the loopback interface of a new network up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(handle, GET_FLAGS, request))[1]
        fcntl.ioctl(handle, SET_FLAGS, struct.pack("16sh14x", b"lo", flags | UP))


def main() -> int:
    """Run the sweep; its exit code."""
    study, runs_dir = map(Path, sys.argv[1:])
    raise_loopback()
    # Short, for the names of sockets begin with it.
    with tempfile.TemporaryDirectory(prefix="r-", ignore_cleanup_errors=True) as folder:
        os.environ["RAY_TMPDIR"] = folder  # read when Ray is imported
        from ray.cluster_utils import Cluster

        head = {**NODE, "num_cpus": 0}
        return disturbed(Cluster(initialize_head=True, head_node_args=head), study, runs_dir)


def disturbed(cluster: Any, study: Path, runs_dir: Path) -> int:
    """The exit code of a sweep one of whose two nodes is killed."""
    nodes = [cluster.add_node(num_cpus=1, **NODE) for _ in range(2)]
    words = ["sweep", str(study), f"--runs={runs_dir}", "--no-wandb", "--workers=2"]
    sweep = subprocess.Popen(
        [sys.executable, "-m", "ablations.cli", *words, "--launcher=ray"],
        env={**os.environ, "RAY_ADDRESS": cluster.address},
    )
    try:
        wait_for_two(sweep, runs_dir, study.stem)
        cluster.remove_node(nodes[0], allow_graceful=False)
        print("a node was killed while two cells ran", flush=True)
        return sweep.wait()
    finally:
        sweep.kill()
        cluster.shutdown()


def wait_for_two(sweep: "subprocess.Popen[bytes]", runs_dir: Path, name: str) -> None:
    """Until two cells are in training."""
    while len(list(runs_dir.glob("*/learning_curve.csv"))) < 2:
        assert sweep.poll() is None, "it ended before two cells ran"
        time.sleep(0.1)
    states = Queue(queue_file(runs_dir, name), name=name).states()
    assert list(states.values()).count("running") == 2, states


if __name__ == "__main__":
    sys.exit(main())

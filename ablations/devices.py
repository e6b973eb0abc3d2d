"""One cell on several devices: a process for each, which train together and end together.

All of them take the same global batches as one process would, each its share of the rows. What a
run leaves is written by the first one alone, which also evaluates alone: scores and texts are those
of one process.
"""

import contextlib
import os
import random
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed
from pytorch_lightning import LightningDataModule
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.strategies import DDPStrategy

from ablations.config import RunConfig
from ablations.loading import TrainingLoader
from data.row_batching import process_share
from lightning_modules.optimization import Precision

OPTION = "--devices-per-cell"
MEETING_SECONDS = 600  # for all to come to the meeting point, and for the slowest one's share


@dataclass(frozen=True, kw_only=True)
class Devices:
    """The devices of a cell, and which of them this process has.

    Attributes:
        count: how many there are, each with a process.
        rank: this process.
        meeting_point: a file that is not there yet, at which they meet.
    """

    count: int = 1
    rank: int = 0
    meeting_point: str = ""

    @property
    def is_first(self) -> bool:
        """Whether this process writes what the run leaves."""
        return self.rank == 0

    def diversify(self, seed: int) -> None:
        """Let each process but the first draw other dropout: their rows are others, too."""
        if not self.is_first:
            torch.manual_seed(random.Random(f"{seed}/{self.rank}").getrandbits(32))

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Be one of a group while the block runs."""
        if self.count == 1:
            yield
            return
        # Talk is between processes of this machine only.
        loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
        os.environ["LOCAL_RANK"] = str(self.rank)  # Lightning then starts no process of its own
        cuda = torch.cuda.is_available()
        torch.distributed.init_process_group(
            "nccl" if cuda else "gloo",
            init_method=f"file://{self.meeting_point}",
            rank=self.rank,
            world_size=self.count,
            timeout=timedelta(seconds=MEETING_SECONDS),
            device_id=torch.device("cuda", self.rank) if cuda else None,
        )
        yield  # after an error the others may be gone: there is no good-bye
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()

    def trainer_options(
        self, precision: Precision, *, plugins: Sequence[Any] = ()
    ) -> dict[str, Any]:
        """What every Trainer here is told, and what it must know to train on these devices."""
        options: dict[str, Any] = {
            # Apple's GPUs lack the double precision that positions and scores are computed in.
            "accelerator": "cuda" if torch.cuda.is_available() else "cpu",
            "devices": self.count,
            "precision": precision(),
            "num_sanity_val_steps": 0,
            "use_distributed_sampler": False,
            "enable_checkpointing": False,
            "enable_model_summary": False,
            # A Slurm job around it places workers: its tasks are none of this Trainer's processes.
            "plugins": [LightningEnvironment(), *plugins],
        }
        if self.count > 1:
            # Copying buffers would hold up a process that validates one batch more than another.
            options["strategy"] = DDPStrategy(broadcast_buffers=False)
        return options


def check_devices(config: RunConfig, *, count: int = 1) -> None:
    """Refuse hardware that is not there, and designs that see other rows than their own.

    Raises:
        ValueError: in one line.
    """
    if config.optim.precision is Precision.fp16 and not torch.cuda.is_available():
        raise ValueError("optim.precision fp16 needs a GPU; choose fp32 or bf16")
    if count > 1 and torch.cuda.is_available() and torch.cuda.device_count() < count:
        raise ValueError(
            f"{OPTION} is {count}, and {torch.cuda.device_count()} GPU can be used; take fewer"
        )
    if count > 1 and (level := config.design.mixing_level):
        raise ValueError(
            f"{OPTION} is {count}, and {level} reads a whole batch, of which each device has only "
            f"a share: it would be another run; leave {OPTION} out"
        )


def check_shares(data: LightningDataModule, *, count: int) -> None:
    """Refuse batches with too few rows to be shared out: they would have to be other batches.

    Raises:
        ValueError: in one line.
    """
    smallest = TrainingLoader(data.train_dataloader()).smallest_batch()
    if smallest < count:
        raise ValueError(
            f"{OPTION} is {count}, and the smallest training batch has {smallest} row(s), too few "
            "to be shared; take fewer devices or another batch size"
        )
    loader = data.val_dataloader()
    rows = sum(map(len, loader.sampler))
    if rows < count:
        raise ValueError(
            f"{OPTION} is {count}, and the validation split has {rows} row(s), too few to be shared"
        )


def total(count: int) -> int:
    """The sum of a whole number over all processes of the group; all must ask for it."""
    return sum(gather(count))


def gather(value: Any) -> list[Any]:
    """A plain value of each process of the group, in their order; all must ask for it."""
    _, count = process_share()
    if count == 1:
        return [value]
    values: list[Any] = [None] * count
    torch.distributed.all_gather_object(values, value)
    return values

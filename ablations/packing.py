"""How many cells train on each GPU at once, where one cell can't fill it."""

from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

from ablations.launch import usable_cores, usable_gpus
from ablations.ledger import read_record
from ablations.plan import Cell

OPTION = "--cells-per-device"
BY_MEMORY = "auto"
FILLED = 0.9  # share of a GPU's memory that is planned with
OWN_BYTES = 2**30  # what a process holds beside what it has counted: its context and libraries
SLACK = 1.2  # the allocator holds more than is in use at the peak


def asked_workers(cells: Sequence[Cell], arguments: Namespace) -> int:
    """How many workers `ablate sweep` has been asked for, whichever way.

    Raises:
        ValueError: as `packed_workers`.
    """
    if arguments.cells_per_device is None:
        return arguments.workers
    return packed_workers(
        arguments.cells_per_device,
        [cell.id for cell in cells],
        runs_dir=arguments.runs,
        devices=arguments.devices_per_cell,
        launcher=arguments.launcher,
    )


def packed_workers(
    asked: int | str, cell_ids: Iterable[str], *, runs_dir: Path, devices: int, launcher: str
) -> int:
    """Workers that give each GPU as many cells at once as asked for.

    Args:
        asked: cells on each GPU, or `auto`: as many as fit by the largest peak that a finished
            run of the study had on a GPU of this kind, with a core for each.
        cell_ids: the cells of the study.
        runs_dir: the folder of the runs.
        devices: how many train one cell.
        launcher: what places the workers.

    Raises:
        ValueError: an engine places the workers, there is no GPU, or by memory, no finished run
            that says how much it takes.
    """
    if launcher != "local":
        raise ValueError(
            f"{OPTION} is for the GPUs of this machine, and --launcher {launcher} gives each "
            "worker a place of its own; take --workers"
        )
    gpus = usable_gpus()
    if not gpus:
        raise ValueError(
            f"{OPTION} is {asked}, and no GPU can be used; on CPUs --workers says how many cells "
            "train at once"
        )
    count = _fitting(cell_ids, runs_dir, gpus=len(gpus)) if asked == BY_MEMORY else int(asked)
    return count * max(1, len(gpus) // devices)


def _fitting(cell_ids: Iterable[str], runs_dir: Path, *, gpus: int) -> int:
    name, memory = gpu_memory()
    files = [runs_dir / cell_id / "result.json" for cell_id in cell_ids]
    records = [read_record(file) for file in files if file.is_file()]
    peaks = [record.get("peak_memory_bytes") for record in records if record["hardware"] == name]
    known = [peak for peak in peaks if peak is not None]
    if not known:
        raise ValueError(
            f"{OPTION} {BY_MEMORY} goes by the memory of finished runs, and none of this study "
            f"was measured on {name}; run one first, or give a number"
        )
    by_memory = int(FILLED * memory / (SLACK * max(known) + OWN_BYTES))
    return max(1, min(by_memory, usable_cores() // gpus))


def gpu_memory() -> tuple[str, int]:
    """The name of the first GPU, and the bytes of the smallest that can be used."""
    import torch

    sizes = [
        torch.cuda.get_device_properties(index).total_memory
        for index in range(torch.cuda.device_count())
    ]
    return torch.cuda.get_device_name(), min(sizes)

"""What the benchmarks share: one thread, medians with their range, where Multi30k lies."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch loads, so before it


def median(values: Sequence[float], *, digits: int = 2) -> str:
    """The median of some repetitions and their range."""
    middle, low, high = (
        f"{value:,.{digits}f}" for value in (statistics.median(values), min(values), max(values))
    )
    return f"{middle} [{low}, {high}]"


def ratios(values: Sequence[float], others: Sequence[float]) -> list[float]:
    """How many times the other each value is, repetition by repetition."""
    return [one / other for one, other in zip(values, others, strict=True)]


def multi30k_folder() -> str:
    """Multi30k beside the other data, or nothing: then the hub has it."""
    data = os.environ.get("ABLATIONS_DATA")
    return str(Path(data) / "multi30k") if data else ""


def machine() -> dict[str, Any]:
    """What the figures were measured on: hardware, threads, versions."""
    import torch

    from ablations.record import hardware, versions

    return {
        "hardware": hardware(),
        "threads": torch.get_num_threads(),
        "versions": versions(),
    }

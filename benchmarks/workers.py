"""Two trainings side by side on a thread each, against one after the other on two threads.

    python -m benchmarks.workers

Both do the same updates on random tokens, in processes that have started before the clock does, by
turns: of Transformer-Tiny, and of a cell of `copy_six_axes`. Lengths are spread as those of
captions are. The machine should be quiet: it is the wall clock that tells, and whoever has two
threads is held up by the slower one. Prints a table, then one line of JSON.
"""

import argparse
import json
import multiprocessing
import random
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from benchmarks import _measuring  # before torch: it sets the threads

# isort: split
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from ablations.launch import usable_cores
from data.batches import TranslationBatch, translation_batch
from lightning_modules.design import Dims
from lightning_modules.optimization import Optim
from lightning_modules.translation import TranslationModule

TRAININGS = 2


class Size(NamedTuple):
    """A model, its batches, and how many of its updates take as long as one of the largest.

    `length` is the mean; a third of it is the standard deviation.
    """

    dims: Dims
    vocabulary: int
    rows: int
    length: int
    times: int


SIZES = {
    "Transformer-Tiny": Size(Dims(), vocabulary=10_000, rows=48, length=20, times=1),
    "copying": Size(
        Dims(d_model=64, d_ff=128, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0),
        vocabulary=30,
        rows=32,
        length=8,
        times=40,
    ),
}
SIDE, AFTER = "side by side, 1 thread each", "one after the other, 2 threads"
TARGET = 1.2  # times as long one after the other as side by side


class _Training:
    """What a process trains, kept between two calls."""

    size: Size
    module: TranslationModule
    optimizer: torch.optim.Optimizer


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print, and return what is printed as JSON.

    Raises:
        SystemExit: there are not cores enough to compare.
    """
    arguments = _parser().parse_args(words)
    if usable_cores() < TRAININGS:
        raise SystemExit(f"{usable_cores()} core(s) can be used, and this takes {TRAININGS}")
    seconds = {
        name: measure(
            size, updates=arguments.updates * size.times, repetitions=arguments.repetitions
        )
        for name, size in SIZES.items()
    }
    found = {"updates": arguments.updates, "wall_seconds": seconds, **_measuring.machine()}
    print(_table(found))
    print(json.dumps(found))
    return found


def measure(size: Size, *, updates: int, repetitions: int) -> dict[str, list[float]]:
    """Wall seconds of both ways, of each of two trainings of so many updates."""
    seconds: dict[str, list[float]] = {SIDE: [], AFTER: []}
    with ExitStack() as stack:
        arms = {
            SIDE: [stack.enter_context(_process(size, threads=1)) for _ in range(TRAININGS)],
            AFTER: [stack.enter_context(_process(size, threads=TRAININGS))],
        }
        for processes in arms.values():
            # Starts them, and the first updates are slower.
            _wall_seconds(processes, updates=2 * size.times)
        for _ in range(repetitions):
            for name, processes in arms.items():
                each = TRAININGS * updates // len(processes)
                seconds[name].append(_wall_seconds(processes, updates=each))
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Time two trainings on two cores.")
    parser.add_argument("--updates", type=int, default=8, help="of each training, of Tiny (8)")
    parser.add_argument("--repetitions", type=int, default=3, help="of both ways (3)")
    return parser


def _process(size: Size, *, threads: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        1,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=partial(_prepare, size, threads),
    )


def _prepare(size: Size, threads: int) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    random.seed(1)
    _Training.size = size
    _Training.module = TranslationModule(vocabulary_size=size.vocabulary, dims=size.dims)
    _Training.module.summed = _mean  # type: ignore[method-assign]  # no Trainer here
    _Training.optimizer = torch.optim.AdamW(_Training.module.parameters(), fused=True)


def _mean(total: Tensor, n_targets: int) -> dict[str, Tensor]:
    return {"loss": total / n_targets}


def _train(updates: int) -> None:
    size, module, optimizer = _Training.size, _Training.module, _Training.optimizer
    for _ in range(updates):
        module.training_step(_batch(size), 0)["loss"].backward()
        clip_grad_norm_(module.parameters(), Optim().clip_norm)
        optimizer.step()
        optimizer.zero_grad()


def _batch(size: Size) -> TranslationBatch:
    sides = [
        [_sentence(size, max(1, round(random.gauss(size.length, size.length / 3)))) for _ in "st"]
        for _ in range(size.rows)
    ]
    return translation_batch([(source, target) for source, target in sides], [*range(size.rows)])


def _sentence(size: Size, length: int) -> list[int]:
    return random.choices(range(4, size.vocabulary), k=length)


def _wall_seconds(processes: Sequence[ProcessPoolExecutor], *, updates: int) -> float:
    started = time.perf_counter()
    for training in [process.submit(_train, updates) for process in processes]:
        training.result()
    return time.perf_counter() - started


def _table(found: dict[str, Any]) -> str:
    lines = [
        f"{TRAININGS} trainings of {found['updates']} updates of Tiny, or of as long; "
        f"{found['hardware']}",
        f"{'':<50} {'wall seconds':>20} {'times the first':>20} {'asked for':>14}",
    ]
    for size, seconds in found["wall_seconds"].items():
        for name, target in ((SIDE, ""), (AFTER, f"at least {TARGET}")):
            ratios = _measuring.ratios(seconds[name], seconds[SIDE])
            lines.append(
                f"{size + ', ' + name:<50} {_measuring.median(seconds[name]):>20} "
                f"{_measuring.median(ratios):>20} {target:>14}"
            )
    lines.append("Medians with their range over repetitions; ratios by repetition.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

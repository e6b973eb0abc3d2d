"""What each level of each axis costs: a training step of it, in steps of the baseline.

    python -m benchmarks.levels

A translation step (forward, loss, backward; random tokens, Transformer-Tiny's width, half of its
depth) of a level and of the baseline, by turns, on one thread. Levels that need another axis to be
set are measured with it, against the baseline with it. Prints a table, then one line of JSON.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from benchmarks import _measuring  # before torch: it sets the threads

# isort: split
import torch

from data.batches import translation_block
from lightning_modules.design import AXES, Design, Dims, violated
from lightning_modules.optimization import Optim
from lightning_modules.translation import TranslationModule

ROWS, LENGTH, VOCABULARY = 32, 20, 1000
DIMS = Dims(n_encoder_layers=2, n_decoder_layers=2)
NEEDS: dict[str, dict[str, str]] = {"rope_scaling": {"position": "rope"}}


def main(words: Sequence[str] | None = None) -> dict[str, list[float]]:
    """Measure, print, and return the ratios by `axis level`."""
    parser = argparse.ArgumentParser(description="Time a step of each level.")
    parser.add_argument("--repetitions", type=int, default=9, help="steps of each level (9)")
    repetitions = parser.parse_args(words).repetitions
    from rich.progress import track  # `gpu_check` imports this file, on machines that lack it

    found: dict[str, list[float]] = {}
    for name, base, design in track(list(designs()), description="levels"):
        step, base_step = _step(design), _step(base)
        pairs = [(_cpu_seconds(step), _cpu_seconds(base_step)) for _ in range(repetitions)]
        found[name] = [one / other for one, other in pairs]
    print(f"{'a step, in steps of the baseline':<48} {'median and range':>20}")
    for name, ratios in sorted(found.items(), key=lambda item: statistics.median(item[1])):
        print(f"{name:<48} {_measuring.median(ratios):>20}")
    print(json.dumps(found))
    return found


def designs() -> Iterator[tuple[str, Design, Design]]:
    """`axis level`, what it is compared with, and the design that has it; baselines left out."""
    for axis, levels in AXES.items():
        needed = NEEDS.get(axis, {}).items()
        base = _with({other: AXES[other][level] for other, level in needed}, Design())
        for level in list(levels)[1:]:
            design = _with({axis: level}, base)
            if not violated(design, DIMS, Optim()):
                yield f"{axis} {level}", base, design


def _with(levels: dict[str, Any], design: Design) -> Design:
    return replace(design, **levels)


def _step(design: Design) -> Callable[[], Any]:
    torch.manual_seed(1)
    module = TranslationModule(vocabulary_size=VOCABULARY, design=design, dims=DIMS)
    batch = translation_block(*torch.randint(4, VOCABULARY, (2, ROWS, LENGTH)))

    def step() -> None:
        module.zero_grad()
        module.training_step(batch, 0)["loss"].backward()

    step()
    return step


def _cpu_seconds(call: Callable[[], Any]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


if __name__ == "__main__":
    main()

"""Forecasting windows that a second of one core trains on, by what a token is made of.

    python -m benchmarks.forecasting

Updates without the optimiser (forward, loss, backward) on generated load, two weeks in and four
days out (336 -> 96), 32 windows each: tokens of single rows, of patches that overlap by half, and
of patches that don't, by turns; DLinear beside them. Prints a table, then one line of JSON.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import _measuring  # before torch: it sets the threads

# isort: split
from ablations.config import config_from_flat
from ablations.quiet import quieten
from ablations.task_runs.registry import make_task_run
from lightning_modules.forecasting import ForecastingModule

BATCH_SIZE = 32
SLOWEST = "points: 336 tokens"
BASE: dict[str, object] = {
    "task": "forecasting",
    "data.source": "load",
    "data.n_hours": 3000,
    "data.lookback": 336,
    "data.horizon": 96,
    "data.batch_size": BATCH_SIZE,
    "dims.d_model": 32,
    "dims.d_ff": 64,
    "dims.n_encoder_layers": 2,
    "dims.max_length": 512,
}
KINDS: dict[str, dict[str, object]] = {
    SLOWEST: {"variant.tokens": "point"},
    "patches of 16, by 8": {"variant.patch_stride": 8},
    "patches of 16, by 16": {"variant.patch_stride": 16},
    "DLinear": {"variant.model": "dlinear"},
}


def main(words: Sequence[str] | None = None) -> dict[str, list[float]]:
    """Measure, print, and return windows a CPU second by the kind of tokens."""
    parser = argparse.ArgumentParser(description="Time forecasting by kind of token.")
    parser.add_argument("--repetitions", type=int, default=9, help="updates of each kind (9)")
    repetitions = parser.parse_args(words).repetitions
    quieten()
    with tempfile.TemporaryDirectory() as folder:
        steps = {name: _step(kind, cache_dir=Path(folder)) for name, kind in KINDS.items()}
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repetitions):
        for name, step in steps.items():
            started = time.process_time()
            step()
            found[name].append(BATCH_SIZE / (time.process_time() - started))
    print(f"{'':<24} {'windows a CPU second':>26} {'times points':>24}")
    for name, rates in found.items():
        times = _measuring.ratios(rates, found[SLOWEST])
        print(
            f"{name:<24} {_measuring.median(rates, digits=0):>26} "
            f"{_measuring.median(times, digits=1):>24}"
        )
    print(json.dumps(found))
    return found


def _step(kind: Mapping[str, object], *, cache_dir: Path) -> Callable[[], None]:
    config = config_from_flat({**BASE, **kind})
    part = make_task_run(config, cache_dir=cache_dir)
    module = part.build(config, part.facts)
    assert isinstance(module, ForecastingModule)
    batch = next(iter(part.data.train_dataloader()))

    def step() -> None:
        module.zero_grad()
        module.training_step(batch, 0)["loss"].backward()

    step()
    return step


if __name__ == "__main__":
    main()

"""Training throughput over the length of a sequence: an LSTM layer and a Transformer block.

    python -m benchmarks.recurrence

Thousands of tokens a second (forward and backward pass, as many tokens an update whatever the
length), at equal width and weights, by turns: on one thread and on all cores, or on the GPU where
there is one. Only a machine with nothing else to do shows what cores add. Prints a table of medians
with their ranges, then one line of JSON.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks import _measuring  # before torch: it sets the threads

# isort: split
import torch
from rich.progress import track
from torch import Tensor, nn

from lightning_modules.design import Design, Dims
from lightning_modules.masks import AttentionMask
from lightning_modules.transformer import Stack

WIDTH, TOKENS = 128, 4096
LENGTHS = (32, 64, 128, 256, 512, 1024)


def main(words: Sequence[str] | None = None) -> dict[str, list[float]]:
    """Measure, print, and return the rates by `layer, threads, length`."""
    parser = argparse.ArgumentParser(description="Time an LSTM and a Transformer over lengths.")
    parser.add_argument("--repetitions", type=int, default=6, help="of each (6)")
    repetitions = parser.parse_args(words).repetitions
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = (1,) if device.type == "cuda" else tuple(dict.fromkeys((1, os.cpu_count() or 1)))
    calls = {
        f"{name}, {count} threads, {length} tokens": partial(_rate, states, length, count, device)
        for name, states in layers(device).items()
        for count in threads
        for length in LENGTHS
    }
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in track(range(repetitions + 1), description="rounds"):
        for name, call in calls.items():
            rate = call()
            found[name] += [rate] if turn else []  # the first one warms up
    print(f"{device.type}; {'thousand tokens a second':<44} {'median and range':>20}")
    for name, rates in found.items():
        print(f"{name:<49} {_measuring.median(rates, digits=1):>20}")
    print(json.dumps({"machine": _measuring.machine(), "rates": found}))
    return found


def layers(device: torch.device) -> dict[str, Callable[[Tensor], Tensor]]:
    """From `(batch, length, WIDTH)` to states: an LSTM layer and a block with as many weights."""
    torch.manual_seed(1)
    lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True).to(device)
    dims = Dims(d_model=WIDTH, d_ff=2 * WIDTH, max_length=max(LENGTHS))
    block = Stack(Design(), dims, n_layers=1, causal=False).to(device)
    return {
        "LSTM": lambda x: lstm(x)[0],
        "Transformer": lambda x: block(x, mask=AttentionMask()),
    }


def _rate(
    states: Callable[[Tensor], Tensor], length: int, threads: int, device: torch.device
) -> float:
    """Thousands of tokens a second in one update's forward and backward pass."""
    x = torch.randn(TOKENS // length, length, WIDTH, device=device)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    started = time.perf_counter()
    states(x).sum().backward()
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    torch.set_num_threads(before)
    return x.shape[0] * length / 1000 / seconds


if __name__ == "__main__":
    main()

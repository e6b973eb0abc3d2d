"""Whether a GPU computes the same, and how fast: one script of at most six minutes.

    python -m benchmarks.gpu_check --data.path FOLDER

Needs torch, pytorch-lightning, sentencepiece, sacrebleu and pandas, and no network. Five parts,
each printed as a table when it is done, then all of it as one line of JSON:

1. the shipped attention of every level against the explicit one, forward and gradients;
2. training throughput by size, precision and compilation, and the share of the card's own rate;
3. what the dearer levels cost at the larger size;
4. one cell against several at once on the card;
5. Multi30k from nothing to 36 BLEU, as time on the clock (left out without `--data.path`).
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks import _to_bleu
from benchmarks.levels import designs
from data.batches import TranslationBatch, translation_block
from lightning_modules.design import Design, Dims
from lightning_modules.layers import Attention
from lightning_modules.optimization import Optim, configure
from lightning_modules.translation import TranslationModule

TINY = Dims()
BASE = Dims(d_model=512, n_heads=8, d_ff=2048, n_encoder_layers=6, n_decoder_layers=6)
SMALL = Dims(d_model=32, n_heads=2, d_ff=64, n_encoder_layers=1, n_decoder_layers=2, dropout=0.0)
VOCABULARY, ROWS, LENGTH = 10_000, 128, 32  # of a batch whose speed is measured
PRECISIONS: dict[str, torch.dtype | None] = {"fp32": None, "bf16": torch.bfloat16}
DEAR = {"position": ("rope", "alibi", "relative", "shaw"), "mask": ("minus_1e9", "post_softmax")}
SECONDS = 4.0  # of each measurement of speed


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print, and return what is printed as JSON."""
    parser = argparse.ArgumentParser(description="Check and time a GPU.")
    parser.add_argument("--data.path", dest="path", help="the folder of Multi30k")
    parser.add_argument("--seconds", type=float, default=150, help="at most, for Multi30k (150)")
    arguments = parser.parse_args(words)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found: dict[str, Any] = {"torch": torch.__version__, "device": _name(device)}
    print(found)
    parts: dict[str, Callable[[], Any]] = {
        "agreement": lambda: agreement(device),
        "speed": lambda: speed(device, {"Tiny": TINY, "Base": BASE}),
        "levels": lambda: levels(device, BASE),
        "packed": lambda: packed(device, counts=(1, 2, 4, 8)),
    }
    if arguments.path:
        parts["multi30k"] = lambda: _to_bleu.train(
            arguments.path, device=device, seconds=arguments.seconds
        )
    for name, part in parts.items():
        started = time.perf_counter()
        found[name] = part()
        print(f"\n{name}, {time.perf_counter() - started:.0f} s")
        for key, values in found[name].items():
            print(f"  {key:<44} " + "  ".join(f"{n} {v:.4g}" for n, v in values.items()))
    print(json.dumps(found))
    return found


def agreement(device: torch.device) -> dict[str, dict[str, float]]:
    """By `level precision`: largest difference of states and of gradients, relative to the largest.

    In bf16 both are compared with explicit attention in fp32, so that it shows which is closer.
    """
    found = {}
    for name, design in [("baseline", Design()), *((name, one) for name, _, one in designs())]:
        exact = _states_and_gradients(design, device, explicit=True, dtype=None)
        for precision, dtype in PRECISIONS.items():
            shipped = _states_and_gradients(design, device, explicit=False, dtype=dtype)
            found[f"{name} {precision}"] = {
                kind: _difference(shipped[kind], exact[kind]) for kind in exact
            }
            if dtype is not None:
                explicit = _states_and_gradients(design, device, explicit=True, dtype=dtype)
                found[f"{name} {precision}"] |= {
                    f"explicit {kind}": _difference(explicit[kind], exact[kind]) for kind in exact
                }
    return found


def _states_and_gradients(
    design: Design, device: torch.device, *, explicit: bool, dtype: torch.dtype | None
) -> dict[str, list[Tensor]]:
    module, batch = _subject(design, SMALL, device, rows=8, length=12, vocabulary=100)
    batch = replace(batch, source_lengths=batch.source_lengths - torch.arange(8).to(device) % 4)
    for layer in module.modules():
        if explicit and isinstance(layer, Attention):
            layer.observer = lambda scores, allowed, weights: None
    with torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None):
        states, _ = module.states_and_targets(batch)
    states.float().pow(2).sum().backward()
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    return {"states": [states.detach().float()], "gradients": gradients}


def _difference(ours: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    largest = max(float(other.abs().max()) for other in others)
    differences = (float((a - b).abs().max()) for a, b in zip(ours, others, strict=True))
    return max(differences) / largest


def _subject(
    design: Design, dims: Dims, device: torch.device, *, rows: int, length: int, vocabulary: int
) -> tuple[TranslationModule, TranslationBatch]:
    torch.manual_seed(1)
    module = TranslationModule(vocabulary_size=vocabulary, design=design, dims=dims).to(device)
    batch = translation_block(*torch.randint(5, vocabulary, (2, rows, length)))
    return module, batch.to(device)


def speed(device: torch.device, sizes: Mapping[str, Dims]) -> dict[str, dict[str, float]]:
    """By size, precision and compilation: targets a second, and the share of the card's rate."""
    peak = {name: _matrix_rate(device, dtype) for name, dtype in PRECISIONS.items()}
    found = {}
    for size, dims in sizes.items():
        for precision, dtype in PRECISIONS.items():
            for compiled in (False, True) if device.type == "cuda" else (False,):
                step, targets, flops = _training_step(Design(), dims, device, dtype, compiled)
                rate = _rate(step, device)
                found[f"{size} {precision}{' compiled' if compiled else ''}"] = {
                    "targets a second": targets * rate,
                    "share of the matrix rate": flops * rate / peak[precision],
                }
    return found


def levels(device: torch.device, dims: Dims) -> dict[str, dict[str, float]]:
    """Time of a bf16 training step of each dear level, in steps of the baseline."""
    base = _rate(_training_step(Design(), dims, device, torch.bfloat16, False)[0], device)
    found = {}
    for name, _, design in designs():
        axis, level = name.split()
        if level in DEAR.get(axis, ()):
            step, *_ = _training_step(design, dims, device, torch.bfloat16, False)
            found[name] = {"steps of the baseline": base / _rate(step, device)}
    return found


def _training_step(
    design: Design, dims: Dims, device: torch.device, dtype: torch.dtype | None, compiled: bool
) -> tuple[Callable[[], None], int, float]:
    """A whole update, its targets, and its operations (six for a weight and a token)."""
    module, batch = _subject(design, dims, device, rows=ROWS, length=LENGTH, vocabulary=VOCABULARY)
    if compiled:
        module.model.compile()
    optimizer = configure(module, Optim(), max_steps=1000)["optimizer"]

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None):
            total = module.training_step(batch, 0)["loss"]
        total.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()

    weights = sum(p.numel() for p in module.parameters())
    return step, ROWS * (LENGTH + 1), 6.0 * weights * ROWS * (LENGTH + 1)


def _rate(step: Callable[[], object], device: torch.device) -> float:
    """Calls a second, after three that don't count."""
    for _ in range(3):
        step()
    _wait(device)
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < SECONDS:
        for _ in range(5):
            step()
        count += 5
        _wait(device)
    return count / (time.perf_counter() - started)


def _matrix_rate(device: torch.device, dtype: torch.dtype | None) -> float:
    """Operations a second of a large matrix product."""
    size = 8192 if device.type == "cuda" else 512
    a, b = torch.randn(2, size, size, device=device, dtype=dtype or torch.float32)
    return 2 * size**3 * _rate(lambda: torch.mm(a, b), device)


def packed(device: torch.device, *, counts: Sequence[int]) -> dict[str, dict[str, float]]:
    """Targets a second of several trainings of Tiny at once, each with a process of its own."""
    context = multiprocessing.get_context("spawn")
    found = {}
    for count in counts:
        with context.Pool(count) as pool:
            rates = pool.map(_tiny_rate, [str(device)] * count, chunksize=1)
        found[f"{count} at once"] = {"targets a second": sum(rates)}
    return found


def _tiny_rate(device: str) -> float:
    torch.set_num_threads(1)
    step, targets, _ = _training_step(Design(), TINY, torch.device(device), torch.bfloat16, False)
    for _ in range(10):  # by then the others have started, too
        step()
    return targets * _rate(step, torch.device(device))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else "cpu"


if __name__ == "__main__":
    main()

"""Whether a GPU computes the same, and how fast: one script of at most six minutes.

    python -m benchmarks.gpu_check --data.path FOLDER

Needs torch, pytorch-lightning, sentencepiece, sacrebleu and pandas, and no network. Six parts, each
within its share of the time; a figure is printed as soon as it is there, then all of them as one
line of JSON, with what has failed and what there was no time for:

1. the shipped attention of every level against the explicit one, forward and gradients;
2. training throughput by size and precision, and the share of the card's own rate;
3. what the dearer levels cost at the larger size;
4. one training against several at once on the card;
5. Multi30k from nothing to 36 BLEU, as time on the clock (left out without `--data.path`);
6. training throughput with `torch.compile`, in the time that is left.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from benchmarks import _to_bleu
from benchmarks._parts import Part, Processes, Values, alone, measure
from benchmarks.levels import designs
from data.batches import TranslationBatch, translation_block
from lightning_modules.design import Design, Dims
from lightning_modules.layers import Attention
from lightning_modules.optimization import Optim, configure
from lightning_modules.translation import TranslationModule

SIZES = {
    "Tiny": Dims(),
    "Base": Dims(d_model=512, n_heads=8, d_ff=2048, n_encoder_layers=6, n_decoder_layers=6),
}
SMALL = Dims(d_model=32, n_heads=2, d_ff=64, n_encoder_layers=1, n_decoder_layers=2, dropout=0.0)
VOCABULARY, ROWS, LENGTH = 10_000, 128, 32  # of a batch whose speed is measured
PRECISIONS: dict[str, torch.dtype | None] = {"fp32": None, "bf16": torch.bfloat16}
DEAR = {"position": ("rope", "alibi", "relative", "shaw"), "mask": ("minus_1e9", "post_softmax")}
AT_ONCE = (1, 2, 4, 8)
SECONDS = 3.0  # of each measurement of speed
TOTAL_SECONDS = 320.0  # imports before them and a slow end still fit into six minutes
LAST_SECONDS = 30  # kept for the last translations of Multi30k
# At most, of each part; what one leaves is for those after it.
SHARES = {"agreement": 50, "speed": 50, "levels": 50, "packed": 60, "multi30k": 150}

Measurements = Mapping[str, Callable[[Processes], Values]]


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print, and return what is printed as JSON.

    Raises:
        SystemExit: something has failed; the rest was measured all the same.
    """
    until = time.perf_counter() + TOTAL_SECONDS
    parser = argparse.ArgumentParser(description="Check and time a GPU.")
    parser.add_argument("--data.path", dest="path", help="the folder of Multi30k")
    path = parser.parse_args(words).path
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found: dict[str, Any] = {"torch": torch.__version__, "device": _name(device)}
    print(found, flush=True)
    measured: dict[str, Part] = {}
    for name, measurements in _parts(device, path).items():
        started = time.perf_counter()
        print(f"\n{name}", flush=True)
        share = started + SHARES.get(name, TOTAL_SECONDS)
        measured[name] = measure(measurements, until=min(share, until), say=_say)
        found[name] = measured[name].found
        _say_missing(measured[name])
        print(f"  {time.perf_counter() - started:.0f} s", flush=True)
    found["failed"] = {name: part.failed for name, part in measured.items() if part.failed}
    found["left_out"] = {name: part.left_out for name, part in measured.items() if part.left_out}
    print(json.dumps(found))
    if found["failed"]:
        raise SystemExit(f"failed: {', '.join(found['failed'])}")
    return found


def _say(name: str, values: Values) -> None:
    figures = "  ".join(f"{kind} {value:.4g}" for kind, value in values.items())
    print(f"  {name:<44} {figures}", flush=True)


def _say_missing(part: Part) -> None:
    for name, reason in part.failed.items():
        print(f"  {name:<44} failed: {reason}")
    if part.left_out:
        print(f"  no time for: {', '.join(part.left_out)}")


def _parts(device: torch.device, path: str | None) -> dict[str, Measurements]:
    parts: dict[str, Measurements] = {
        "agreement": agreement(device),
        "speed": speed(device, SIZES, compiled=False),
        "levels": levels(device, SIZES["Base"]),
        "packed": packed(device, SIZES["Tiny"]),
    }
    if path:
        parts["multi30k"] = multi30k(path)
    if device.type == "cuda":
        parts["compiled"] = speed(device, SIZES, compiled=True)
    return parts


def agreement(device: torch.device) -> Measurements:
    """By level: largest difference of states and of gradients, relative to the largest."""
    named = [("baseline", Design()), *((name, design) for name, _, design in designs())]
    return {name: alone(partial(_agreement, design, device)) for name, design in named}


def _agreement(design: Design, device: torch.device) -> Values:
    """In bf16 both are compared with explicit attention in fp32: which is closer shows, too."""
    exact = _states_and_gradients(design, device, explicit=True, dtype=None)
    found: Values = {}
    for precision, dtype in PRECISIONS.items():
        for name, explicit in (("", False), (" explicit", True)):
            if dtype is not None or not explicit:
                ours = _states_and_gradients(design, device, explicit=explicit, dtype=dtype)
                differences = {kind: _difference(ours[kind], exact[kind]) for kind in exact}
                found |= {f"{precision}{name} {kind}": d for kind, d in differences.items()}
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


def speed(device: torch.device, sizes: Mapping[str, Dims], *, compiled: bool) -> Measurements:
    """By size and precision: targets a second, and the share of the card's rate."""
    # bf16 first: to compile takes minutes, and it is what a training of this size would take.
    return {
        f"{size} {precision}": alone(partial(_speed, dims, device, precision, compiled))
        for size, dims in sizes.items()
        for precision in sorted(PRECISIONS)
    }


def _speed(dims: Dims, device: torch.device, precision: str, compiled: bool) -> Values:
    dtype = PRECISIONS[precision]
    step, targets, operations = _training_step(Design(), dims, device, dtype, compiled)
    rate = _rate(step, device)
    share = operations * rate / _matrix_rate(device, dtype)
    return {"targets a second": targets * rate, "share of the matrix rate": share}


def levels(device: torch.device, dims: Dims) -> Measurements:
    """Time of a bf16 training step of each dear level, in steps of the baseline."""
    return {
        name: alone(partial(_steps_of_the_baseline, design, dims, device))
        for name, _, design in designs()
        if name.split()[1] in DEAR.get(name.split()[0], ())
    }


def _steps_of_the_baseline(design: Design, dims: Dims, device: torch.device) -> Values:
    return {"steps": _level_rate(Design(), dims, device) / _level_rate(design, dims, device)}


@cache
def _level_rate(design: Design, dims: Dims, device: torch.device) -> float:
    return _rate(_training_step(design, dims, device, torch.bfloat16, False)[0], device)


def _training_step(
    design: Design, dims: Dims, device: torch.device, dtype: torch.dtype | None, compiled: bool
) -> tuple[Callable[[], None], int, float]:
    """A whole update, its targets, and its operations (six for a weight and a token)."""
    module, batch = _subject(design, dims, device, rows=ROWS, length=LENGTH, vocabulary=VOCABULARY)
    if compiled:
        torch.compiler.reset()  # what was compiled for another size counts towards a limit
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


@cache
def _matrix_rate(device: torch.device, dtype: torch.dtype | None) -> float:
    """Operations a second of a large matrix product."""
    size = 8192 if device.type == "cuda" else 512
    a, b = torch.randn(2, size, size, device=device, dtype=dtype or torch.float32)
    return 2 * size**3 * _rate(lambda: torch.mm(a, b), device)


def packed(device: torch.device, dims: Dims) -> Measurements:
    """Targets a second of several trainings at once, each with a process of its own."""
    return {f"{count} at once": partial(_packed, dims, device, count) for count in AT_ONCE}


def _packed(dims: Dims, device: torch.device, count: int, processes: Processes) -> Values:
    rates = processes.run(partial(_one_of_several, dims, device), count=count)
    return {"targets a second": sum(rates)}


def _one_of_several(dims: Dims, device: torch.device) -> float:
    torch.set_num_threads(1)
    step, targets, _ = _training_step(Design(), dims, device, torch.bfloat16, False)
    for _ in range(10):  # by then the others have started, too
        step()
    return targets * _rate(step, device)


def multi30k(path: str) -> Measurements:
    """Seconds and BLEU, by number of updates."""
    return {f"to {_to_bleu.GOAL} BLEU": partial(_multi30k, path)}


def _multi30k(path: str, processes: Processes) -> Values:
    seconds = processes.until - time.perf_counter() - LAST_SECONDS
    [found] = processes.run(partial(_to_bleu.train, path, seconds=seconds))
    return {f"{kind} {n}": value for n, values in found.items() for kind, value in values.items()}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else "cpu"


if __name__ == "__main__":
    main()

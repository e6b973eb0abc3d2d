"""Decoding the first test split: greedy with the key/value cache, without it, and beam search.

    python -m benchmarks.decoding --run ID --runs FOLDER   # the weights of a finished run
    python -m benchmarks.decoding --data.path FOLDER       # untrained weights, on Multi30k

Without the cache every row is read from its beginning at each step; batches, stop rules and rows
that leave the batch are the same, and so must be the output. Untrained weights seldom end a row, so
they measure the longest outputs. One thread, unless OMP_NUM_THREADS says otherwise; repetitions are
interleaved, so that a busy machine slows all of them down. Prints a table, then one line of JSON.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import _measuring  # before torch: it sets the threads

# isort: split
import torch

from ablations.config import config_from_flat
from ablations.finished import open_run
from ablations.task_runs.registry import make_task_run
from data.batches import TranslationBatch
from lightning_modules.decoding import beam_search, greedy_search
from lightning_modules.translation import TranslationModule

CACHED, UNCACHED, BEAM = "greedy, with cache", "greedy, without cache", "beam 5, with cache"
DECODERS: dict[str, Callable[..., list[list[int]]]] = {
    CACHED: greedy_search,
    UNCACHED: partial(greedy_search, cached=False),
    BEAM: partial(beam_search, beam_size=5),
}


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print, and return what is printed as JSON.

    Raises:
        SystemExit: with and without the cache the outputs differ.
    """
    arguments = _parser().parse_args(words)
    module, batches, split = _subject(arguments)
    outputs: dict[str, list[list[int]]] = {}
    wall: dict[str, list[float]] = {name: [] for name in DECODERS}
    cpu: dict[str, list[float]] = {name: [] for name in DECODERS}
    for name in DECODERS:
        _decode(module, batches[-1:], name)  # the first call of anything is slower
    for _ in range(arguments.repetitions):
        for name in DECODERS:
            started = time.perf_counter(), time.process_time()
            outputs[name] = _decode(module, batches, name)
            wall[name].append(time.perf_counter() - started[0])
            cpu[name].append(time.process_time() - started[1])
    differing = sum(a != b for a, b in zip(outputs[CACHED], outputs[UNCACHED], strict=True))
    if differing:
        raise SystemExit(f"{differing} outputs differ with and without the cache")
    found = {
        "weights": arguments.run or "untrained",
        "split": split,
        "sentences": len(outputs[CACHED]),
        "tokens": {name: sum(map(len, rows)) for name, rows in outputs.items()},
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        **_measuring.machine(),
    }
    print(_table(found))
    print(json.dumps(found))
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Time greedy decoding and beam search.")
    parser.add_argument("--run", help="a finished run of task translation (untrained weights)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs (runs)")
    parser.add_argument(
        "--data.path", dest="path", help="where the data lie (as in the run, or hub)"
    )
    parser.add_argument("--repetitions", type=int, default=3, help="of each decoder (3)")
    return parser


def _subject(
    arguments: argparse.Namespace,
) -> tuple[TranslationModule, list[TranslationBatch], str]:
    cache_dir = arguments.runs / ".cache"
    if arguments.run:
        run = open_run(arguments.run, runs_dir=arguments.runs)
        part, module = run.read_data(cache_dir=cache_dir, path=arguments.path), run.module
    else:
        chosen = {
            "data.source": "multi30k",
            "data.path": arguments.path or _measuring.multi30k_folder(),
        }
        part = make_task_run(config_from_flat(chosen), cache_dir=cache_dir)
        torch.manual_seed(part.config.seed)
        module = part.build(part.config, part.facts).eval()
    if not isinstance(module, TranslationModule):
        raise SystemExit(f"run {arguments.run} has no decoder that reads a source; choose another")
    split = part.data.test_splits[0]
    return module, list(part.data.test_dataloader(split)), split


def _decode(
    module: TranslationModule, batches: Sequence[TranslationBatch], name: str
) -> list[list[int]]:
    longest = module.model.decoder.position.longest
    rows = (
        DECODERS[name](module.model, batch.source, batch.source_lengths, longest=longest)
        for batch in batches
    )
    return [row for batch in rows for row in batch]


def _table(found: dict[str, Any]) -> str:
    lines = [
        f"{found['sentences']} sentences of {found['split']}, weights: {found['weights']}; "
        f"{found['threads']} thread(s) of {found['hardware']}",
        f"{'':<22} {'tokens':>7} {'CPU seconds':>22} {'wall seconds':>22} {'times the first':>22}",
    ]
    base = found["cpu_seconds"][CACHED]
    for name in DECODERS:
        cpu, wall = (found[f"{kind}_seconds"][name] for kind in ("cpu", "wall"))
        ratios = _measuring.ratios(cpu, base)
        texts = (_measuring.median(values) for values in (cpu, wall, ratios))
        lines.append(
            f"{name:<22} {found['tokens'][name]:>7} " + " ".join(f"{t:>22}" for t in texts)
        )
    lines.append("Medians with their range over repetitions; ratios of CPU seconds, by repetition.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

"""Decoding the first test split: ours, and the greedy search that one would write otherwise.

    python -m benchmarks.decoding --run ID --runs FOLDER   # the weights of a finished run
    python -m benchmarks.decoding --data.path FOLDER       # untrained weights, on Multi30k

The other search is `torch.nn.Transformer` with the same weights (`benchmarks/_plain_decoding.py`);
designs that it has no part for are measured without it. Ours without the cache reads every row from
its beginning at each step, too, but batches by length, stop rules and rows that leave the batch are
those of the search with the cache, and so must be the output. Untrained weights seldom end a row,
so they measure the longest outputs. One thread, unless OMP_NUM_THREADS says otherwise; repetitions
are interleaved, so that a busy machine slows all of them down. Prints a table, then one line of
JSON.
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
from ablations.task_runs.translation import TranslationRun
from benchmarks import _plain_decoding
from data.batches import TranslationBatch
from lightning_modules.decoding import beam_search, greedy_search
from lightning_modules.translation import TranslationModule

CACHED, UNCACHED, BEAM = "greedy, with cache", "greedy, without cache", "beam 5, with cache"
PLAIN = "greedy, nn.Transformer"
DECODERS: dict[str, Callable[..., list[list[int]]]] = {
    CACHED: greedy_search,
    UNCACHED: partial(greedy_search, cached=False),
    BEAM: partial(beam_search, beam_size=5),
}
TARGETS = {PLAIN: "at least 7", BEAM: "at most 5"}  # times greedy with the cache
Arm = Callable[[], list[list[int]]]  # gives the rows in the order of the file


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print, and return what is printed as JSON.

    Raises:
        SystemExit: with and without the cache the outputs differ.
    """
    arguments = _parser().parse_args(words)
    part, module = _subject(arguments)
    split = part.data.test_splits[0]
    rows = range(min(arguments.sentences, len(part.data.references(split))))
    batches = list(part.data.test_dataloader(split, rows))
    few = list(part.data.test_dataloader(split, rows[:2]))
    for arm in _arms(part, module, few).values():
        arm()  # the first call of anything is slower
    arms = _arms(part, module, batches)
    outputs: dict[str, list[list[int]]] = {}
    wall: dict[str, list[float]] = {name: [] for name in arms}
    cpu: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(arguments.repetitions):
        for name, arm in arms.items():
            started = time.perf_counter(), time.process_time()
            outputs[name] = arm()
            wall[name].append(time.perf_counter() - started[0])
            cpu[name].append(time.process_time() - started[1])
    greedy = {name: rows for name, rows in outputs.items() if name != BEAM}
    differing = {name: _differing(rows, outputs[CACHED]) for name, rows in greedy.items()}
    if differing[UNCACHED]:
        raise SystemExit(f"{differing[UNCACHED]} outputs differ with and without the cache")
    found = {
        "weights": arguments.run or "untrained",
        "split": split,
        "sentences": len(outputs[CACHED]),
        "tokens": {name: sum(map(len, rows)) for name, rows in outputs.items()},
        "differing": differing,
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
    parser.add_argument("--sentences", type=int, default=1000, help="from the first on (1000)")
    parser.add_argument("--repetitions", type=int, default=3, help="of each decoder (3)")
    return parser


def _subject(arguments: argparse.Namespace) -> tuple[TranslationRun, TranslationModule]:
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
    if not (isinstance(part, TranslationRun) and isinstance(module, TranslationModule)):
        raise SystemExit(f"run {arguments.run} has no decoder that reads a source; choose another")
    return part, module


def _arms(
    part: TranslationRun, module: TranslationModule, batches: Sequence[TranslationBatch]
) -> dict[str, Arm]:
    arms: dict[str, Arm] = {
        name: partial(_decode, module, batches, search) for name, search in DECODERS.items()
    }
    if _plain_decoding.is_plain(part.config.design, part.config.dims):
        copy = _plain_decoding.plain_copy(module.model, part.config.dims)
        sources = _plain_decoding.in_file_order(batches)
        arms[PLAIN] = partial(_plain_decoding.greedy, copy, sources)
    return arms


def _decode(
    module: TranslationModule,
    batches: Sequence[TranslationBatch],
    search: Callable[..., list[list[int]]],
) -> list[list[int]]:
    longest = module.model.decoder.position.longest
    rows: dict[int, list[int]] = {}
    for batch in batches:
        written = search(module.model, batch.source, batch.source_lengths, longest=longest)
        rows |= zip(batch.indices.tolist(), written, strict=True)
    return [rows[index] for index in sorted(rows)]


def _differing(rows: list[list[int]], others: list[list[int]]) -> int:
    return sum(one != other for one, other in zip(rows, others, strict=True))


def _table(found: dict[str, Any]) -> str:
    lines = [
        f"{found['sentences']} sentences of {found['split']}, weights: {found['weights']}; "
        f"{found['threads']} thread(s) of {found['hardware']}",
        f"{'':<22} {'tokens':>7} {'CPU seconds':>22} {'wall seconds':>22} {'times the first':>22} "
        f"{'asked for':>10}  rows that differ",
    ]
    base = found["cpu_seconds"][CACHED]
    for name, cpu in found["cpu_seconds"].items():
        wall = found["wall_seconds"][name]
        texts = map(_measuring.median, (cpu, wall, _measuring.ratios(cpu, base)))
        lines.append(
            f"{name:<22} {found['tokens'][name]:>7} {' '.join(f'{text:>22}' for text in texts)} "
            f"{TARGETS.get(name, ''):>10}  {found['differing'].get(name, '')}"
        )
    if PLAIN not in found["cpu_seconds"]:
        lines.append("nn.Transformer has no part for this design: measured without it.")
    lines.append("Medians with their range over repetitions; ratios of CPU seconds, by repetition.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

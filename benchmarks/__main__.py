"""All benchmarks, one after the other, in about thirteen minutes of a quiet machine: `make bench`.

    python -m benchmarks

Some are run shorter than they are by themselves (`WORDS`), and that of a GPU only where there is
one. What each prints is shown; what each has found is kept in one file of JSON, with the seconds
that it took, and one table at the end says it in a line. Decoding has untrained weights here, which
write up to each limit: for those of a run, call it by itself.
"""

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ablations.files import write_atomically
from benchmarks import _measuring

KEPT = Path("runs/benchmarks/all.json")
WORDS: dict[str, list[str]] = {
    "decoding": ["--sentences=40", "--repetitions=1"],
    "levels": ["--repetitions=5"],
    "overhead": ["--cells=6"],
    "tracking": ["--updates=200", "--repetitions=3"],
    "training": ["--updates=10", "--repetitions=2"],
}


def main() -> None:
    """Run, keep, and print the table.

    Raises:
        SystemExit: one has failed; the others have been run all the same.
    """
    found: dict[str, dict[str, Any]] = {}
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    for name in names():
        print(f"\n== {name} ==", flush=True)
        found[name] = _run(name, WORDS.get(name, []))
        write_atomically(KEPT, json.dumps(found, indent=1))
    print(f"\n{table(found)}\nin full: {KEPT}")
    if failed := [name for name, one in found.items() if one["exit_code"] != 0]:
        raise SystemExit(f"failed: {', '.join(failed)}")


def names() -> list[str]:
    """The benchmarks that this machine can run."""
    import torch

    files = sorted(file.stem for file in Path(__file__).parent.glob("[!_]*.py"))
    return [name for name in files if name != "gpu_check" or torch.cuda.is_available()]


def _run(name: str, words: list[str]) -> dict[str, Any]:
    """Run one in a process of its own, and show what it prints but its JSON."""
    started, before = time.perf_counter(), _cpu_seconds()
    lines: list[str] = []
    command = [sys.executable, "-m", f"benchmarks.{name}", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if _parsed(lines[-1]) is None:
                print(lines[-1], flush=True)
    return {
        "words": words,
        "exit_code": process.returncode,
        "wall_seconds": time.perf_counter() - started,
        "cpu_seconds": _cpu_seconds() - before,
        "found": _parsed(lines[-1]) if lines else None,
        "printed": [line for line in lines if _parsed(line) is None],
    }


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _parsed(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        return json.loads(line)
    except ValueError:  # a line of text
        return None


def table(found: dict[str, dict[str, Any]]) -> str:
    """What each has found, in a line; its last line of text where that is all there is."""
    lines = [f"{'':<12} {'wall s':>8} {'CPU s':>8}  found"]
    for name, one in found.items():
        seconds = f"{one['wall_seconds']:>8.0f} {one['cpu_seconds']:>8.0f}"
        lines.append(f"{name:<12} {seconds}  {_headline(name, one)}")
    total = [sum(one[f"{kind}_seconds"] for one in found.values()) for kind in ("wall", "cpu")]
    return "\n".join([*lines, f"{'total':<12} {total[0]:>8.0f} {total[1]:>8.0f}"])


def _headline(name: str, one: dict[str, Any]) -> str:
    if one["exit_code"] != 0:
        return f"failed with exit code {one['exit_code']}"
    if one["found"] is not None and name in HEADLINES:
        try:
            return HEADLINES[name](one["found"])
        except (KeyError, TypeError) as error:  # after ten minutes the others are still worth it
            return f"its JSON has another form than the table expects: {error!r}"
    return one["printed"][-1] if one["printed"] else ""


def _times(seconds: dict[str, list[float]], base: str) -> str:
    """The ratios of all others to the base, by repetition."""
    texts = (
        f"{name} {_measuring.median(_measuring.ratios(values, seconds[base]))}"
        for name, values in seconds.items()
        if name != base
    )
    return f"{'; '.join(texts)} times {base}"


def _levels(found: dict[str, list[float]]) -> str:
    medians = {name: statistics.median(ratios) for name, ratios in found.items()}
    dearest = max(medians, key=medians.__getitem__)
    return f"{len(medians)} levels; dearest {dearest}, {medians[dearest]:.2f} times the baseline"


HEADLINES: dict[str, Callable[[Any], str]] = {
    "decoding": lambda found: _times(found["cpu_seconds"], "greedy, with cache"),
    "levels": _levels,
    "overhead": lambda found: (
        f"{found['overhead']:.1%} of a sweep, {found['later_overhead']:.1%} after its first start; "
        f"plan of {found['planned']:,} cells {found['plan']:.1f} s"
    ),
    "startup": lambda found: "; ".join(
        f"{name} {statistics.median(values):.2f} s" for name, values in found.items()
    ),
    "tracking": lambda found: (
        f"a cell with W&B {_measuring.median(found['ratio']['cell_cpu'], digits=3)} times without"
    ),
    "training": lambda found: _times(found["targets_per_cpu_second"], "plain nn.Transformer loop"),
    "workers": lambda found: "; ".join(
        f"{size}: {_times(seconds, 'side by side, 1 thread each')}"
        for size, seconds in found["wall_seconds"].items()
    ),
}


if __name__ == "__main__":
    main()

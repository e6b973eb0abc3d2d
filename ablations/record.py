"""What a result says of the circumstances: versions, hardware, commit, command."""

import datetime
import hashlib
import importlib.metadata
import os
import platform
import shlex
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ablations.config import RunConfig, flatten, nested
from ablations.ledger import SCHEMA
from ablations.source import ROOMS, source_version

PACKAGES = (
    "transformer-ablations",
    "torch",
    "pytorch-lightning",
    "sentencepiece",
    "sacrebleu",
    "sacremoses",
    "numpy",
)


def record(run: Any, *, steps: int, evaluated: float) -> dict[str, Any]:
    """The content of `result.json`.

    Args:
        run: the parts of the run, an `ablations.run._Run`.
        steps: updates that were made.
        evaluated: seconds of all that was measured.
    """
    n_targets, trained = run.curve.n_targets, run.curve.seconds
    return {
        "schema": SCHEMA,
        "id": run.identity,
        "status": "finished" if run.divergence.step is None else "diverged",
        "diverged_at_step": run.divergence.step,
        "config": nested(run.config),
        "data_fingerprint": run.config.task.value.fingerprint(run.config.data),
        "tokenizer_hash": run.part.tokenizer_hash,
        "data_report": run.part.data.report,
        "metrics": run.metrics,
        "undefined": list(run.part.undefined),
        "parameters": sum(p.numel() for p in run.module.parameters() if p.requires_grad),
        "flops_per_target": run.flops.per_target,
        "peak_memory_bytes": run.memory.bytes(),
        "steps": steps,
        "target_tokens": n_targets,
        "seconds": {
            "train": trained,
            "evaluate": evaluated,
            "total": run.checkpoints.seconds_so_far(),
        },
        "tokens_per_second": n_targets / trained if trained else 0.0,
        "resumed": run.checkpoints.resumed,
        "batch_parts": run.parts,
        "devices": run.devices.count,
        **circumstances(run.config),
        "started": run.checkpoints.started,
        "ended": now(),
    }


def circumstances(config: RunConfig) -> dict[str, Any]:
    """Versions, hardware, threads, commit and the command that makes this result again."""
    return {
        "versions": versions(),
        "hardware": hardware(),
        "threads": torch.get_num_threads(),
        "git_commit": git_commit(),
        "code_version": source_version(),
        "command": command(config),
    }


def versions() -> dict[str, str]:
    """The version of Python and of each package that can change a number."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def now() -> str:
    """The time, to the second, as ISO 8601 in UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@cache
def code_version() -> str:
    """Identifies all code that a run goes through, and the packages it uses."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256(repr(versions()).encode())
    for room in ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def hardware() -> str:
    """The GPU that a run here uses, or the CPU and its number of cores."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{_cpu_name()} ({os.cpu_count()} cores)"


def git_commit() -> str | None:
    """The commit of this code, with `-dirty` when files differ; None outside a repository."""
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None if answer.returncode == 0 else None


def command(config: RunConfig) -> str:
    """The `ablate run` command of this config, naming only what differs from the defaults."""
    default = flatten(RunConfig())
    words = ["ablate", "run"]
    for path, value in flatten(config).items():
        if default.get(path) != value:
            words.append(f"--{path}={value}")
    return shlex.join(words)


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

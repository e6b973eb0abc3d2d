"""The weights of a finished run: plain tensors and names, loadable without running any code."""

import io
import pickle
from pathlib import Path

import pytorch_lightning as pl
import torch

from ablations.config import RunConfig, config_from_flat, flatten
from ablations.files import write_atomically
from ablations.task_runs.base import Facts
from ablations.task_runs.registry import TASK_RUNS

KEYS = {"config", "facts", "tokenizer_hash", "state_dict"}


def save_weights(
    path: Path,
    module: pl.LightningModule,
    *,
    config: RunConfig,
    facts: Facts,
    tokenizer_hash: str,
) -> None:
    """Write the module's weights, with the names that build the module again."""
    buffer = io.BytesIO()
    state = {name: tensor.cpu() for name, tensor in module.state_dict().items()}
    content = {
        "config": flatten(config),
        "facts": dict(facts),
        "tokenizer_hash": tokenizer_hash,
        "state_dict": state,
    }
    torch.save(content, buffer)
    write_atomically(path, buffer.getvalue())


def load_module(path: Path) -> pl.LightningModule:
    """Build the module of a finished run, with its weights, on the CPU and in evaluation mode.

    Raises:
        ValueError: the file is not what `save_weights` writes.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError):
        raise ValueError(
            f"{path}: no weights of a run; expected a weights.pt of this tool"
        ) from None
    if not isinstance(content, dict) or content.keys() != KEYS:
        raise ValueError(f"{path}: no weights of a run; expected {', '.join(sorted(KEYS))} inside")
    config = config_from_flat(content["config"])
    module = TASK_RUNS[config.task].build(config, content["facts"])
    try:
        module.load_state_dict(content["state_dict"])
    except RuntimeError:
        raise ValueError(
            f"{path}: weights of another version of this tool, whose model had other parts; use "
            "that version, or run it again"
        ) from None
    return module.eval()

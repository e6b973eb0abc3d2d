"""The weights of a finished run: plain tensors and names, loadable without running any code."""

import io
import pickle
from pathlib import Path

import torch

from ablations.config import RunConfig, config_from_flat, flatten
from ablations.files import write_atomically
from lightning_modules.translation import TranslationModule

KEYS = {"config", "vocabulary_size", "tokenizer_hash", "state_dict"}


def build_module(config: RunConfig, vocabulary_size: int) -> TranslationModule:
    """The untrained module of a config."""
    return TranslationModule(
        vocabulary_size=vocabulary_size,
        design=config.design,
        dims=config.dims,
        optim=config.optim,
        max_steps=config.budget.max_steps,
        beam_size=config.budget.beam_size,
    )


def save_weights(
    path: Path,
    module: TranslationModule,
    *,
    config: RunConfig,
    vocabulary_size: int,
    tokenizer_hash: str,
) -> None:
    """Write the module's weights, with the names that build the module again."""
    buffer = io.BytesIO()
    state = {name: tensor.cpu() for name, tensor in module.state_dict().items()}
    content = {
        "config": flatten(config),
        "vocabulary_size": vocabulary_size,
        "tokenizer_hash": tokenizer_hash,
        "state_dict": state,
    }
    torch.save(content, buffer)
    write_atomically(path, buffer.getvalue())


def load_module(path: Path) -> TranslationModule:
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
    module = build_module(config_from_flat(content["config"]), content["vocabulary_size"])
    module.load_state_dict(content["state_dict"])
    return module.eval()

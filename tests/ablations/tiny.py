"""Configs of runs that take a second, and a study of them."""

from pathlib import Path
from typing import Any

from ablations.config import RunConfig, config_from_flat

TINY: dict[str, Any] = {
    "data.vocabulary_size": 300,
    "data.n_train": 200,
    "data.n_test": 8,
    "data.tokens_per_batch": 128,
    "dims.d_model": 8,
    "dims.n_heads": 2,
    "dims.d_ff": 16,
    "dims.n_encoder_layers": 1,
    "dims.n_decoder_layers": 1,
    "optim.warmup_steps": 4,
    "budget.max_steps": 10,
    "budget.validate_every": 4,
}

STUDY = """
description: tiny
base:
  data.vocabulary_size: 200
  data.n_train: 300
  data.n_test: 8
  data.tokens_per_batch: 512
  dims.d_model: 16
  dims.n_heads: 2
  dims.d_ff: 16
  dims.n_encoder_layers: 1
  dims.n_decoder_layers: 1
  optim.warmup_steps: 2
  budget.max_steps: 4
  budget.validate_every: 4
axes:
  design.norm_position: [pre, post]
  design.position: [sinusoidal, rope]
seeds: [1, 2]
"""


def tiny(**changes: Any) -> RunConfig:
    """The tiny config with changes; a dot in a name is written as two underscores."""
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return config_from_flat({**TINY, **named})


def corpus(folder: Path, **content: bytes) -> None:
    folder.mkdir()
    for split in ("train", "val", "test"):
        for language in ("en", "de"):
            (folder / f"{split}.{language}").write_bytes(b"a b\nc d\n")
    for name, text in content.items():
        (folder / name.replace("_", ".")).write_bytes(text)

"""What the heads of a finished run attend to in one example, as frames."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from torch import nn

from ablations.attention_examples import Choice, Example, read_example
from ablations.finished import FinishedRun
from ablations.task_runs.base import TaskRun
from lightning_modules.attention_maps import AttentionMap, attention_maps, map_statistics
from lightning_modules.layers import Attention
from lightning_modules.supervised import TokenModule

# Who asks and who is asked, by stack.
SIDES = {
    "encoder": ("encoder", "encoder"),
    "decoder-self": ("decoder", "decoder"),
    "decoder-cross": ("decoder", "encoder"),
}


@dataclass(frozen=True, eq=False)
class Attended:
    """Frames of one example; stacks, layers, heads and tokens count from 0.

    Attributes:
        title: the run and the example.
        unit: what a label is.
        weights: `stack` (`encoder`, `decoder-self`, `decoder-cross`), `layer`, `head`, `query`,
            `query_label`, `key`, `key_label`, `weight`.
        heads: `stack`, `layer`, `head`, `entropy_bits`, `distance` (tokens), `previous_token` and
            `self` (weights), means over queries; the last two are missing where queries and keys
            are different tokens.
    """

    title: str
    unit: str
    weights: pd.DataFrame
    heads: pd.DataFrame


def attend(
    run: FinishedRun, choice: Choice, *, cache_dir: Path, data_path: str | None = None
) -> Attended:
    """Have the model of a run read an example, and keep what its heads attend to.

    Raises:
        ValueError: a model without attention, data that are not those of the run, or an example
            that is not there.
    """
    if not has_attention(run.module):
        model = getattr(run.config.variant, "model", None)
        why = f"variant.model {model}" if model is not None else "no layers"
        raise ValueError(f"run {run.id} has no attention to draw: {why}; choose another run")
    part = run.read_data(cache_dir=cache_dir, path=data_path)
    example, maps = example_maps(part, run.module, choice)
    return Attended(
        title=f"{run.id}: {example.title}",
        unit=example.unit,
        weights=pd.concat([_weights(found, example) for found in maps], ignore_index=True),
        heads=pd.concat([_heads(found) for found in maps], ignore_index=True),
    )


def has_attention(module: nn.Module) -> bool:
    """Whether some layer attends."""
    return any(isinstance(part, Attention) for part in module.modules())


def example_maps(
    part: TaskRun, module: nn.Module, choice: Choice
) -> tuple[Example, list[AttentionMap]]:
    """An example, and what every layer of a module, in evaluation mode, attends to in it.

    Raises:
        ValueError: an example that is not there.
    """
    example = read_example(part, module, choice)
    return example, attention_maps(module, lambda: _read(module, example), row=example.row)


def _read(module: Any, example: Example) -> object:
    if isinstance(module, TokenModule):
        return module.states_and_targets(example.batch)
    return module.predict_step(example.batch, 0)


def _weights(found: AttentionMap, example: Example) -> pd.DataFrame:
    queries, keys = (example.labels[side] for side in SIDES[found.stack])
    places = [range(found.weights.shape[0]), range(len(queries)), range(len(keys))]
    index = pd.MultiIndex.from_product(places, names=["head", "query", "key"])
    frame = index.to_frame(index=False).assign(stack=found.stack, layer=found.layer)
    frame["query_label"] = frame["query"].map(dict(enumerate(queries)))
    frame["key_label"] = frame["key"].map(dict(enumerate(keys)))
    frame["weight"] = found.weights.flatten().numpy()
    columns = ["stack", "layer", "head", "query", "query_label", "key", "key_label", "weight"]
    return frame[columns]


def _heads(found: AttentionMap) -> pd.DataFrame:
    statistics = map_statistics(found)
    return pd.DataFrame(
        {
            "stack": found.stack,
            "layer": found.layer,
            "head": range(found.weights.shape[0]),
            "entropy_bits": statistics.entropy.numpy(),
            "distance": statistics.distance.numpy(),
            "previous_token": statistics.previous_token.numpy(),
            "self": statistics.diagonal.numpy(),
        }
    )

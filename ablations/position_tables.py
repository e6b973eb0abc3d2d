"""The position tables of a design, or of a finished run, as frames."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
import torch
from torch import nn

from ablations.config import RunConfig
from ablations.finished import FinishedRun
from lightning_modules.axes.positions import PositionScheme
from lightning_modules.position_tables import PositionTable, position_table


@dataclass(frozen=True, eq=False)
class PositionFrames:
    """What the position schemes of a model's stacks hold.

    Attributes:
        title: whose they are.
        table: `stack`, `kind` (see `PositionTable`), then rows and columns by name (`position` and
            `dimension` or `pair`, `head` and `offset`, `offset` and `dimension`), and `value`.
        waves: `stack`, `dimension` or `pair`, and `wavelength` in tokens, as
            `position_tables.wavelength` measures it; empty where no column is a wave.
    """

    title: str
    table: pd.DataFrame
    waves: pd.DataFrame


def design_tables(config: RunConfig) -> PositionFrames:
    """The untrained tables of a design, as an encoder and as a decoder have them.

    Raises:
        ValueError: the design has no positions.
    """
    torch.manual_seed(config.seed)
    design, dims = config.design, config.dims
    schemes = {
        name: design.position(design, dims, causal=name == "decoder")
        for name in ("encoder", "decoder")
    }
    return _frames(schemes, config, title=f"design.position {design.position}, untrained")


def run_tables(run: FinishedRun) -> PositionFrames:
    """The tables of the stacks of a run, trained where they are trained.

    Raises:
        ValueError: the run has no position scheme, or one without a table.
    """
    schemes = _schemes(run.module)
    if not schemes:
        model = getattr(run.config.variant, "model", None)
        raise ValueError(f"run {run.id} has no positions: variant.model {model}")
    title = f"{run.id}: design.position {run.config.design.position}"
    return _frames(schemes, run.config, title=title)


def module_tables(module: nn.Module, config: RunConfig) -> dict[str, PositionTable]:
    """The tables of a module's stacks, by stack; those without one are left out."""
    found = {name: _table(part, config, stack=name) for name, part in _schemes(module).items()}
    return {name: table for name, table in found.items() if table is not None}


def _schemes(module: nn.Module) -> dict[str, PositionScheme]:
    return {
        name.split(".")[-2]: part
        for name, part in module.named_modules()
        if isinstance(part, PositionScheme)
    }


def _frames(
    schemes: Mapping[str, PositionScheme], config: RunConfig, *, title: str
) -> PositionFrames:
    tables = {name: _table(scheme, config, stack=name) for name, scheme in schemes.items()}
    if not any(tables.values()):
        raise ValueError(
            f"design.position {config.design.position} has no table; choose another level"
        )
    found = {name: table for name, table in tables.items() if table is not None}
    waves = [_waves(name, table) for name, table in found.items()]
    return PositionFrames(
        title=title,
        table=pd.concat([_values(name, table) for name, table in found.items()]),
        waves=pd.concat([part for part in waves if part is not None] or [pd.DataFrame()]),
    )


def _table(scheme: PositionScheme, config: RunConfig, *, stack: str) -> PositionTable | None:
    dims = config.dims
    return position_table(
        scheme,
        n_positions=dims.max_length,
        n_heads=dims.n_heads,
        d_key=dims.d_key,
        causal=stack == "decoder",
    )


def _values(stack: str, table: PositionTable) -> pd.DataFrame:
    places = [table.rows.tolist(), table.columns.tolist()]
    frame = pd.MultiIndex.from_product(places, names=table.axes).to_frame(index=False)
    frame.insert(0, "stack", stack)
    frame.insert(1, "kind", table.kind)
    return frame.assign(value=table.values.flatten().numpy())


def _waves(stack: str, table: PositionTable) -> pd.DataFrame | None:
    if table.wavelengths is None:
        return None
    columns = {table.axes[1]: table.columns.tolist(), "wavelength": table.wavelengths.numpy()}
    return pd.DataFrame({"stack": stack, **columns})

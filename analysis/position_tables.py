"""Position tables as heat maps, and how fast each dimension oscillates."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.curves import PALETTE, SETTINGS, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {"rotation": "twilight"}
UNITS = {
    "vector": "value",
    "rotation": "angle, radians",
    "bias": "bias, added to the scores",
    "key vector": "value",
}
AXIS_LABELS = {"offset": "offset, key - query"}
SORTED = 0.9  # rank correlation from which dimensions count as ordered by speed


def wave_sentence(waves: pd.DataFrame) -> str:
    """Which dimensions of one stack's table oscillate fast, in words with figures."""
    name = waves.columns[1]
    finite = waves[np.isfinite(waves["wavelength"])]
    if finite.empty:
        return f"no {name} oscillates"
    fast, slow = (finite.loc[finite["wavelength"].agg(which)] for which in ("idxmin", "idxmax"))
    still = len(waves) - len(finite)
    return (
        f"waves of {_tokens(fast)} ({name} {fast[name]:.0f}) to {_tokens(slow)} "
        f"({name} {slow[name]:.0f}){f', {still} without a wave' if still else ''}{_order(waves)}"
    )


def _order(waves: pd.DataFrame) -> str:
    """Whether the speed follows the dimension; nothing for a single one."""
    name = waves.columns[1]
    if len(waves) < 2:
        return ""
    order = waves[name].corr(waves["wavelength"], method="spearman")
    words = f"the speed does not follow the {name}"
    if abs(order) >= SORTED:
        first, last = ("fast", "slow") if order > 0 else ("slow", "fast")
        words = f"low {name}s oscillate {first}, high ones {last}"
    return f", rank correlation with the {name} {order:+.2f}: {words}"


def positions_figure(table: pd.DataFrame, waves: pd.DataFrame, *, title: str) -> "Figure":
    """A heat map for each stack, and under it the wavelength of each column, where it is a wave.

    Args:
        table: `stack`, `kind`, the names of rows and columns, and `value`.
        waves: `stack`, the name of the columns, and `wavelength`; may be empty.
        title: whose table it is.
    """
    import matplotlib
    from matplotlib.figure import Figure

    stacks, lines = list(table["stack"].unique()), 1 if waves.empty else 2
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(5 * len(stacks), 2.2 + 2.4 * lines), layout="constrained")
        ratios = [1.0] if waves.empty else [1.5, 1.0]
        panels = figure.subplots(
            lines, len(stacks), squeeze=False, sharex="col", height_ratios=ratios
        )
        for column, stack in enumerate(stacks):
            heat = panels[0, column]
            _draw_table(heat, table[table["stack"] == stack])
            heat.set_title(stack)
            if not waves.empty:
                heat.set_xlabel("")
                _draw_waves(panels[1, column], waves[waves["stack"] == stack])
        kind = table["kind"].iloc[0]
        image = panels[0, -1].images[0]
        figure.colorbar(image, ax=list(panels[0]), label=UNITS[kind], aspect=30)
        figure.suptitle(title)
    return figure


def save_positions(
    table: pd.DataFrame, waves: pd.DataFrame, *, title: str, folder: Path
) -> list[Path]:
    """Draw into `folder`: `positions`, as in `curves.save`, and `wavelengths.csv` if there are any.

    Returns:
        The picture (PNG) and the wavelengths.
    """
    figure = positions_figure(table, waves, title=title)
    written = save(figure, table, folder / "positions")[:1]
    if not waves.empty:
        written.append(folder / "wavelengths.csv")
        waves.to_csv(written[-1], index=False, lineterminator="\n")
    return written


def _tokens(row: pd.Series) -> str:
    return f"{row['wavelength']:,.{1 if row['wavelength'] < 100 else 0}f} tokens"


def _draw_table(panel: "Axes", part: pd.DataFrame) -> None:
    from matplotlib.ticker import MaxNLocator

    rows, columns = part.columns[2:4]
    grid = part.pivot(index=rows, columns=columns, values="value")
    across, down = grid.columns.to_numpy(), grid.index.to_numpy()
    kind, largest = part["kind"].iloc[0], part["value"].abs().max()
    panel.imshow(
        grid,
        cmap=COLORS.get(kind, "RdBu_r"),
        vmin=-np.pi if kind == "rotation" else -largest,
        vmax=np.pi if kind == "rotation" else largest,
        aspect="auto",
        interpolation="nearest",
        extent=(across[0] - 0.5, across[-1] + 0.5, down[-1] + 0.5, down[0] - 0.5),
    )
    for axis, name in ((panel.xaxis, columns), (panel.yaxis, rows)):
        axis.set_major_locator(MaxNLocator(integer=True))
        axis.set_label_text(AXIS_LABELS.get(name, name))


def _draw_waves(panel: "Axes", part: pd.DataFrame) -> None:
    from matplotlib.ticker import LogFormatter

    name = part.columns[1]
    panel.semilogy(part[name], part["wavelength"], ".", color=PALETTE[2], markersize=3)
    # The usual labels of a logarithmic axis are formulas, and those aren't read here.
    panel.yaxis.set_major_formatter("{x:,.0f}")
    panel.yaxis.set_minor_formatter(LogFormatter())
    panel.set_xlabel(name)
    panel.set_ylabel("wavelength, tokens")
    panel.grid(axis="y", color="#dddddd", linewidth=0.6)

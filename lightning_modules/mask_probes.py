"""What a mask level does to scores in one number format."""

from dataclasses import dataclass

import torch

from lightning_modules.axes.attention import MaskMethod


@dataclass(frozen=True)
class MaskBehaviour:
    """A mask level in one number format, against `minus_inf` in the same format.

    Attributes:
        differing: outputs that aren't the same bit for bit, in rows with a key.
        compared: outputs that were compared.
        largest: the largest difference among them.
        hidden_weight: the largest weight on a hidden key, in rows with a key.
        empty_row: the largest weight in a row without any key.
        refused: why the format can't hold the level's value; empty where it can. The numbers are
            then NaN and counts 0.
    """

    differing: int
    compared: int
    largest: float
    hidden_weight: float
    empty_row: float
    refused: str = ""


def mask_behaviour(method: MaskMethod, dtype: torch.dtype, *, length: int = 32) -> MaskBehaviour:
    """What `method` does to random scores in `dtype` under a causal mask with one empty row."""
    generator = torch.Generator().manual_seed(0)
    scores, values = (
        torch.randn(2, 4, length, width, generator=generator).to(dtype) for width in (length, 16)
    )
    allowed = torch.ones(length, length, dtype=torch.bool).tril()
    allowed[length // 2] = False
    filled, allowed = allowed.any(-1), allowed.expand(2, 4, -1, -1)
    try:
        weights = method(scores, allowed)
    except RuntimeError as error:
        nan = float("nan")
        return MaskBehaviour(0, 0, nan, nan, nan, refused=str(error).splitlines()[0])
    outputs = (weights @ values)[:, :, filled]
    expected = (MaskMethod.minus_inf(scores, allowed) @ values)[:, :, filled]
    return MaskBehaviour(
        differing=int((outputs != expected).sum()),
        compared=outputs.numel(),
        largest=(outputs - expected).abs().max().item(),
        hidden_weight=weights[:, :, filled][~allowed[:, :, filled]].max().item(),
        empty_row=weights[:, :, ~filled].max().item(),
    )

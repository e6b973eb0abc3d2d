"""Independent statements of what each level computes: one oracle for each level of each axis.

Written from the papers' formulas in plain Python, or taken from PyTorch, never from our own code.
"""

import math

import torch
from torch import Tensor, nn


def scores_by_hand(query: Tensor, key: Tensor) -> Tensor:
    """Dot products of vectors, one by one: `(query, key)`."""
    return torch.stack([torch.stack([(q * k).sum() for k in key]) for q in query])


SCALES = {"sqrt_d_head": lambda width: width**-0.5, "none": lambda width: 1.0}


def _softmax(row: list[float]) -> list[float]:
    highest = max(row)
    exponentials = [math.exp(value - highest) for value in row]
    return [value / sum(exponentials) for value in exponentials]


def minus_inf(row: list[float], allowed: list[bool]) -> list[float]:
    """The softmax over the allowed entries only; nothing where there are none."""
    kept = [value for value, keep in zip(row, allowed, strict=True) if keep]
    weights = iter(_softmax(kept)) if kept else iter(())
    return [next(weights) if keep else 0.0 for keep in allowed]


def minus_1e9(row: list[float], allowed: list[bool]) -> list[float]:
    """The softmax with -1e9 in place of what is hidden."""
    return _softmax([value if keep else -1e9 for value, keep in zip(row, allowed, strict=True)])


def post_softmax(row: list[float], allowed: list[bool]) -> list[float]:
    """The softmax over everything, then zeros."""
    weights = _softmax(row)
    return [weight if keep else 0.0 for weight, keep in zip(weights, allowed, strict=True)]


MASKS = {"minus_inf": minus_inf, "minus_1e9": minus_1e9, "post_softmax": post_softmax}


def pre_norm(x: Tensor, sublayer: nn.Module) -> Tensor:
    """Xiong et al. 2020, figure 1b, with a norm that has no parameters."""
    return x + sublayer(nn.functional.layer_norm(x, x.shape[-1:]))


def post_norm(x: Tensor, sublayer: nn.Module) -> Tensor:
    """Vaswani et al. 2017, section 3.1, with a norm that has no parameters."""
    return nn.functional.layer_norm(x + sublayer(x), x.shape[-1:])


WIRINGS = {"pre": pre_norm, "post": post_norm}

# Norms of a decoder block with three sub-layers.
NORMS_PER_BLOCK = {"separate": 3, "shared": 1}


def sinusoid(position: int, column: int, d_model: int) -> float:
    """Vaswani et al. 2017, section 3.5, for one entry of the table."""
    angle = position / 10000 ** ((column - column % 2) / d_model)
    return math.cos(angle) if column % 2 else math.sin(angle)


def rotated(vector: list[float], position: int) -> list[float]:
    """Su et al. 2021, eq. 13, as a product of complex numbers over pairs (i, i + half)."""
    half = len(vector) // 2
    pairs = [complex(vector[i], vector[i + half]) for i in range(half)]
    turned = [
        pair * complex(math.cos(angle), math.sin(angle))
        for i, pair in enumerate(pairs)
        for angle in [position * 10000 ** (-2 * i / len(vector))]
    ]
    return [pair.real for pair in turned] + [pair.imag for pair in turned]


# Press et al. 2022, section 3 and footnote 7; three heads and six and twelve by the authors' rule.
ALIBI_SLOPES = {
    1: [2**-8],
    2: [2**-4, 2**-8],
    3: [2**-4, 2**-8, 2**-2],
    4: [2**-2, 2**-4, 2**-6, 2**-8],
    6: [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3],
    8: [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8],
    12: [2**-n for n in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
}


def alibi_bias(query: int, key: int, slope: float) -> float:
    """Press et al. 2022, figure 3, made symmetric."""
    return -slope * abs(query - key)


POSITIONS = {
    "sinusoidal": sinusoid,
    "none": None,
    "learned": None,
    "rope": rotated,
    "alibi": alibi_bias,
}

ORACLES = {
    "attention_scale": SCALES,
    "mask": MASKS,
    "norm_position": WIRINGS,
    "norm_sharing": NORMS_PER_BLOCK,
    "position": POSITIONS,
}

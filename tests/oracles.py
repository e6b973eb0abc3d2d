"""Independent statements of what each level computes: one oracle for each level of each axis.

Written from the papers' formulas in plain Python, or taken from PyTorch, never from our own code.
"""

import math
import sys

import torch
from torch import Tensor, nn


def scores_by_hand(query: Tensor, key: Tensor) -> Tensor:
    """Dot products of vectors, one by one: `(query, key)`."""
    return torch.stack([torch.stack([(q * k).sum() for k in key]) for q in query])


SCALES = {
    "sqrt_d_head": lambda width: width**-0.5,
    "none": lambda width: 1.0,
    "inverse_d_head": lambda width: 1 / width,
}


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


def dtype_min(row: list[float], allowed: list[bool]) -> list[float]:
    """The softmax with the smallest double in place of what is hidden."""
    lowest = -sys.float_info.max
    return _softmax([value if keep else lowest for value, keep in zip(row, allowed, strict=True)])


MASKS = {
    "minus_inf": minus_inf,
    "minus_1e9": minus_1e9,
    "dtype_min": dtype_min,
    "post_softmax": post_softmax,
    # Zeroing and dividing by the rest is, in exact arithmetic, a softmax over the rest.
    "post_softmax_renormalised": minus_inf,
}

# What one later token may reach: with a correct causal mask nothing, with a leaky one everything.
REACHES_THE_PAST = {"correct": False, "leaky": True}


def no_query_key_norm(vector: list[float]) -> list[float]:
    """As it is."""
    return vector


def rms(vector: list[float]) -> list[float]:
    """Zhang & Sennrich 2019, eq. 4, with a gain of 1."""
    size = math.sqrt(sum(value**2 for value in vector) / len(vector))
    return [value / size for value in vector]


QUERY_KEY_NORMS = {"none": no_query_key_norm, "rms": rms}


def head_row(rows: list[list[float]], head: int, position: int, n_heads: int) -> list[float]:
    """The slice of the width that a head owns, at its own position."""
    width = len(rows[0]) // n_heads
    return rows[position][head * width : (head + 1) * width]


def head_row_wrong(rows: list[list[float]], head: int, position: int, n_heads: int) -> list[float]:
    """What lies there when all numbers are cut up in the order of memory."""
    width = len(rows[0]) // n_heads
    flat = [value for row in rows for value in row]
    start = (head * len(rows) + position) * width
    return flat[start : start + width]


HEAD_ROWS = {"correct": head_row, "interleaved_wrong": head_row_wrong}

# Rows of the key projection for 4 heads of width 4 and 2 groups.
KEY_ROWS = {"multi_head": 16, "multi_query": 4, "grouped_query": 8}


def layer_norm(x: Tensor) -> Tensor:
    """Ba et al. 2016, eq. 4, with gain 1 and bias 0."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred**2).mean(-1, keepdim=True).add(1e-5).sqrt()


def rms_norm(x: Tensor) -> Tensor:
    """Zhang & Sennrich 2019, eq. 4, with gain 1."""
    return x / (x**2).mean(-1, keepdim=True).add(1e-5).sqrt()


def batch_norm(x: Tensor) -> Tensor:
    """Ioffe & Szegedy 2015, algorithm 1, over all rows and positions."""
    centred = x - x.mean((0, 1))
    return centred / (centred**2).mean((0, 1)).add(1e-5).sqrt()


NORMS = {
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "batch_norm_masked": batch_norm,
    "none": lambda x: x,
}


def pre_norm(x: Tensor, sublayer: nn.Module) -> Tensor:
    """Xiong et al. 2020, figure 1b, with a norm that has no parameters."""
    return x + sublayer(nn.functional.layer_norm(x, x.shape[-1:]))


def post_norm(x: Tensor, sublayer: nn.Module) -> Tensor:
    """Vaswani et al. 2017, section 3.1, with a norm that has no parameters."""
    return nn.functional.layer_norm(x + sublayer(x), x.shape[-1:])


def sandwich_norm(x: Tensor, sublayer: nn.Module) -> Tensor:
    """Ding et al. 2021, section 2.4, with norms that have no parameters."""
    norm = nn.functional.layer_norm
    return x + norm(sublayer(norm(x, x.shape[-1:])), x.shape[-1:])


def wrong_branch(x: Tensor, sublayer: nn.Module) -> Tensor:
    """The stream leaves a norm, is the residual, and goes through the norm again."""
    norm = nn.functional.layer_norm
    stream = norm(x, x.shape[-1:])
    return norm(stream + sublayer(stream), x.shape[-1:])


WIRINGS = {
    "pre": pre_norm,
    "post": post_norm,
    "sandwich": sandwich_norm,
    "wrong_branch": wrong_branch,
}

# Norms of a decoder of two blocks with three sub-layers each, without the one at its end.
NORMS_OF_STACK = {"separate": 6, "shared": 2, "shared_in_stack": 1}

# Of a stream x and a branch b in a stack of 9 branches; a trained weight of rezero is .5.
RESIDUALS = {
    "add": lambda x, b: x + b,
    "none": lambda x, b: b,
    "rezero": lambda x, b: x + 0.5 * b,
    "depth_scaled": lambda x, b: x + b / 3,
}

# Deviation of the weights from `n_inputs` to `n_outputs`, ending one of `n_branches` branches.
DEVIATIONS = {
    "xavier": lambda n_inputs, n_outputs, n_branches: math.sqrt(2 / (n_inputs + n_outputs)),
    "default": lambda n_inputs, n_outputs, n_branches: 1 / math.sqrt(3 * n_inputs),
    "kaiming": lambda n_inputs, n_outputs, n_branches: math.sqrt(2 / n_inputs),
    "depth_scaled": lambda n_inputs, n_outputs, n_branches: 0.02 / math.sqrt(n_branches),
    "small_init": lambda n_inputs, n_outputs, n_branches: math.sqrt(2 / (5 * 64)),  # d_model 64
}


def mlp(x: Tensor, w: dict[str, Tensor]) -> Tensor:
    """Vaswani et al. 2017, eq. 2, without biases."""
    return (x @ w["inner"].T).clamp(min=0) @ w["outer"].T


def gated(x: Tensor, w: dict[str, Tensor]) -> Tensor:
    """Shazeer 2020, eq. 6 with a ReLU, without biases."""
    return ((x @ w["gate"].T).clamp(min=0) * (x @ w["inner"].T)) @ w["outer"].T


FEED_FORWARDS = {"mlp": mlp, "gated": gated, "gated_equal_parameters": gated, "none": None}

ACTIVATIONS = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "silu": lambda x: x / (1 + math.exp(-x)),
}

EMBEDDING_SCALES = {"sqrt_d_model": lambda d_model: d_model**0.5, "none": lambda d_model: 1.0}

# Tables of a model with a source, and pairs of (source, target, output) that are the same.
TABLES = {"all": 1, "output": 2, "none": 3}


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


def shaw_term(query: Tensor, keys: Tensor, i: int, j: int) -> Tensor:
    """Shaw et al. 2018, eq. 5, second summand: distances beyond 16 are taken as 16."""
    return (query[i] * keys[max(-16, min(16, j - i)) + 16]).sum()


POSITIONS = {
    "sinusoidal": sinusoid,
    "none": None,
    "learned": "rows of a table",
    "rope": rotated,
    "alibi": alibi_bias,
    "relative": "transformers.models.t5",
    "shaw": shaw_term,
}


def ntk_frequency(index: int, width: int, factor: float) -> float:
    """bloc97 2023: the base grows by factor^(d/(d-2))."""
    return (10000 * factor ** (width / (width - 2))) ** (-2 * index / width)


ROPE_FREQUENCIES = {
    "none": lambda index, width, factor: 10000 ** (-2 * index / width),
    "position_interpolation": lambda index, width, factor: 10000 ** (-2 * index / width) / factor,
    "ntk_aware": ntk_frequency,
}

# Of an embedding x with position p under a joining map (A, B): what enters the first block, and
# what its values are made from.
INJECTIONS = {
    "add": lambda x, p, a, b: (x + p, x + p),
    "concat": lambda x, p, a, b: (x @ a.T + p @ b.T, x @ a.T + p @ b.T),
    "values_only": lambda x, p, a, b: (x, x + p),
}

ORACLES: dict[str, dict] = {
    "attention_scale": SCALES,
    "mask": MASKS,
    "causal_mask": REACHES_THE_PAST,
    "query_key_norm": QUERY_KEY_NORMS,
    "head_split": HEAD_ROWS,
    "head_sharing": KEY_ROWS,
    "position": POSITIONS,
    "position_injection": INJECTIONS,
    "rope_scaling": ROPE_FREQUENCIES,
    "norm_position": WIRINGS,
    "norm_kind": NORMS,
    "norm_sharing": NORMS_OF_STACK,
    "residual": RESIDUALS,
    "initialization": DEVIATIONS,
    "feed_forward": FEED_FORWARDS,
    "activation": ACTIVATIONS,
    "embedding_scale": EMBEDDING_SCALES,
    "embedding_tying": TABLES,
}

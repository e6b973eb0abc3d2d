"""What a design costs: parameters by part, operations, and memory by length.

Parameters and operations follow from the config alone. A slot whose size depends on its level is
built once without storage, on torch's `meta` device, and counted there.
"""

from collections import Counter
from collections.abc import Iterable
from functools import partial

import torch
from torch import nn

from lightning_modules.axes.embeddings import TokenTable
from lightning_modules.design import Design, Dims
from lightning_modules.layers import Block, branches_per_block, make_feed_forward
from lightning_modules.transformer import Stack

PARTS = ("embeddings", "positions", "attention", "feed_forward", "norms", "residual", "other")


def parameters_by_part(model: nn.Module) -> dict[str, int]:
    """Parameters of a built model by part; the values add up to all of them.

    A shared parameter counts once. `attention` holds the norms of queries and keys, `positions`
    what joins positions to the embeddings, `norms` also those at the end of a stack; what stands
    in no table, block or stack is `other`.
    """
    counts, seen = dict.fromkeys(PARTS, 0), set[int]()
    for part, module in [*_parts(model), ("other", model)]:
        for parameter in module.parameters():
            if id(parameter) not in seen:
                seen.add(id(parameter))
                counts[part] += parameter.numel()
    return counts


def _parts(model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    """Modules with their part, the special before the general."""
    for module in model.modules():
        found: dict[str, list[nn.Module | None]] = {}
        if isinstance(module, TokenTable):
            found = {"embeddings": [module]}
        elif isinstance(module, Stack):
            positions: list[nn.Module | None] = [module.position, module.injection]
            found = {"positions": positions, "norms": [module.final_norm]}
        elif isinstance(module, Block):
            places = (module.around_self, module.around_cross, module.around_feed_forward)
            around = [wiring for wiring in places if wiring is not None]
            found = {
                "attention": [module.self_attention, module.cross_attention],
                "feed_forward": [module.feed_forward],
                "residual": [wiring.get_submodule("residual") for wiring in around],
                "norms": [*around],
            }
        yield from ((part, m) for part, parts in found.items() for m in parts if m is not None)


def encoder_decoder_parameters(
    design: Design, dims: Dims, *, vocabulary_size: int
) -> dict[str, int]:
    """Parameters of an `EncoderDecoder` by part, from the config alone."""
    encoder = stack_parameters(design, dims, n_layers=dims.n_encoder_layers, causal=False)
    decoder = stack_parameters(
        design, dims, n_layers=dims.n_decoder_layers, causal=True, cross_attention=True
    )
    tables = table_parameters(design, dims, vocabulary_size=vocabulary_size, n_tables=3)
    return _all_parts(encoder + decoder + Counter(embeddings=tables))


def decoder_only_parameters(design: Design, dims: Dims, *, vocabulary_size: int) -> dict[str, int]:
    """Parameters of a `DecoderOnly` by part, from the config alone."""
    stack = stack_parameters(design, dims, n_layers=dims.n_decoder_layers, causal=True)
    tables = table_parameters(design, dims, vocabulary_size=vocabulary_size, n_tables=2)
    return _all_parts(stack + Counter(embeddings=tables))


def _all_parts(counts: Counter[str]) -> dict[str, int]:
    return {part: counts[part] for part in PARTS}


def table_parameters(design: Design, dims: Dims, *, vocabulary_size: int, n_tables: int) -> int:
    """Parameters of the last `n_tables` of source, target and output table, tied as designed.

    One table has `vocabulary · width`, and `width · d_model` more where it is factorised.
    """
    n_different = len(set(design.embedding_tying(object)[-n_tables:]))
    width = dims.embedding_rank or dims.d_model
    return n_different * (vocabulary_size * width + dims.embedding_rank * dims.d_model)


def stack_parameters(
    design: Design, dims: Dims, *, n_layers: int, causal: bool, cross_attention: bool = False
) -> Counter[str]:
    """Parameters of a `Stack` by part, from the config alone.

    A map from n to m features has `n·m + m`; an attention layer four of them. Norms, positions,
    residuals and the feed-forward network are what their levels make them.
    """
    n_branches = branches_per_block(design, cross_attention=cross_attention)
    make_norm = partial(design.norm_kind, dims.d_model, eps=dims.norm_epsilon)
    with torch.device("meta"):
        position = design.position(design, dims, causal=causal)
        injection = design.position_injection(dims) if position.has_vectors else None
        feed_forward = make_feed_forward(design, dims, n_branches=1)
        residual, query_key_norm = design.residual(1), design.query_key_norm(dims.d_key)
        of_block = design.norm_sharing(make_norm)
        norms: list[nn.Module] = []
        for make_block_norm in (of_block() for _ in range(n_layers)):
            norms += (_around(design, make_block_norm) for _ in range(n_branches))
        if not (n_layers and design.norm_position.ends_with_norm):
            norms.append(make_norm())
    attention = _map_weights(design, dims) + _map_biases(design, dims) + 2 * _size(query_key_norm)
    return Counter(
        positions=_size(position, injection),
        attention=n_layers * (1 + cross_attention) * attention,
        feed_forward=n_layers * _size(feed_forward),
        norms=_size(*norms),
        residual=n_layers * n_branches * _size(residual),
    )


def _around(design: Design, make_norm: partial[nn.Module]) -> nn.Module:
    """The wiring of a branch, with norms alone."""
    return design.norm_position(make_norm, nn.Identity(), nn.Identity())


def _size(*modules: nn.Module | None) -> int:
    """Parameters of all modules together, shared ones once."""
    return sum(p.numel() for p in nn.ModuleList(m for m in modules if m is not None).parameters())


def _map_widths(design: Design, dims: Dims) -> tuple[int, int, int]:
    """Widths that queries, keys and values are projected to."""
    n_shared = design.head_sharing(dims.n_heads, dims.n_key_value_heads)
    return dims.n_heads * dims.d_key, n_shared * dims.d_key, n_shared * dims.d_value


def _map_weights(design: Design, dims: Dims) -> int:
    return dims.d_model * (sum(_map_widths(design, dims)) + dims.n_heads * dims.d_value)


def _map_biases(design: Design, dims: Dims) -> int:
    return sum(_map_widths(design, dims)) + dims.d_model


def encoder_decoder_flops(
    design: Design,
    dims: Dims,
    *,
    vocabulary_size: int,
    source_length: int,
    target_length: int,
) -> int:
    """Floating-point operations of one forward pass over one pair, logits included.

    A multiplication and its addition count as 2. Counted are matrix products: `2·n·W` for n tokens
    through maps of W weights, and `2·q·k·heads·(d_key + d_value)` for q queries against k keys,
    hidden ones included, as the explicit path computes them (Kaplan et al. 2020, table 1, with the
    attention products of both stacks). Divide by `target_length` for the cost of a target token.
    What a position scheme itself adds to the scores (design.position shaw) isn't counted.
    """
    narrow = dims.embedding_rank * dims.d_model
    logits = 2 * target_length * (vocabulary_size * (dims.embedding_rank or dims.d_model) + narrow)
    read = 2 * (source_length + target_length) * narrow
    encoder = _stack_flops(design, dims, dims.n_encoder_layers, source_length, memory_length=0)
    decoder = _stack_flops(
        design, dims, dims.n_decoder_layers, target_length, memory_length=source_length
    )
    return read + encoder + decoder + logits


def _stack_flops(
    design: Design, dims: Dims, n_layers: int, length: int, *, memory_length: int
) -> int:
    """Operations of a stack over `length` tokens; those of a decoder where there is a memory."""
    with torch.device("meta"):
        feed_forward = make_feed_forward(design, dims, n_branches=1)
        has_vectors = design.position(design, dims, causal=False).has_vectors
        injection = design.position_injection(dims) if has_vectors else None
    queries, keys, values = (dims.d_model * width for width in _map_widths(design, dims))
    own_side = queries + dims.n_heads * dims.d_value * dims.d_model
    products = dims.n_heads * (dims.d_key + dims.d_value)
    block = length * (own_side + keys + values + _weights(feed_forward)) + length**2 * products
    if memory_length:
        block += length * own_side + memory_length * (keys + values)
        block += length * memory_length * products
    return 2 * (n_layers * block + length * _weights(injection))


def _weights(module: nn.Module | None) -> int:
    """Weights of the maps in a module, biases left out."""
    linears = [] if module is None else [m for m in module.modules() if isinstance(m, nn.Linear)]
    return sum(linear.weight.numel() for linear in linears)

"""Checks of scores, heads and memory: A1, A2 and A10 to A13."""

import math
from dataclasses import replace
from itertools import pairwise

import torch

from ablations.checks.check import Check, Outcome, Verdict, decoder, encoder, several_heads, verdict
from ablations.checks.subject import LENGTH, Subject
from ablations.config import RunConfig
from lightning_modules.axes.attention import AttentionScale, MaskMethod
from lightning_modules.axes.heads import HeadSharing, HeadSplit
from lightning_modules.axes.positions import Position
from lightning_modules.design import Dims
from lightning_modules.layers import Attention
from lightning_modules.masks import AttentionMask
from lightning_modules.memory import attention_memory
from lightning_modules.probes import (
    HeadStatistics,
    causal_leak,
    entropy,
    head_statistics,
    query_key_gradients,
    record_attention,
    score_variance,
)

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512)
SAMPLES = 20_000
VISIBLE = 1e-6


def variance_of_scores(subject: Subject) -> Outcome:
    """A1: products of random vectors, and the first scores of the model."""
    torch.manual_seed(subject.config.seed)
    ratios, deviations = [], []
    for width in WIDTHS:
        query, key = torch.randn(2, SAMPLES, width)
        ratio = (query * key).sum(-1).var().item() / width
        # The variance of the square of such a product is 2d² + 6d.
        error = math.sqrt((2 * width**2 + 6 * width) / SAMPLES) / width
        ratios.append(ratio)
        deviations.append(abs(ratio - 1) / error)
    raw = _first_variance(subject)
    width = subject.dims.d_key
    return verdict(
        max(deviations) < 4,
        f"variance / d_k for d_k {WIDTHS[0]} to {WIDTHS[-1]}: {min(ratios):.3f} to "
        f"{max(ratios):.3f}, at most {max(deviations):.1f} standard errors from 1; first scores "
        f"of this model, d_k {width}: {raw:.3g} before, {raw / width:.3g} after dividing",
    )


def _first_variance(subject: Subject) -> float:
    """Variance of the first layer's scores, without scale and positions."""
    design = replace(subject.without_positions(), attention_scale=AttentionScale.none)
    model = subject.model(design, n_encoder_layers=1, n_decoder_layers=0)
    with torch.no_grad(), record_attention(model) as records:
        model.encode(subject.source, torch.full_like(subject.source_lengths, LENGTH))
    return score_variance(records[0])


def without_scale(subject: Subject) -> Outcome:
    """A2: saturation and gradients of one layer at its start, over the width of a head."""
    words, entropies, norms, rows = [], [], [], []
    for width in (4, 16, 64, 256, 512):
        plain, scaled = (
            _layer_at_start(subject, width, scale)
            for scale in (AttentionScale.none, AttentionScale.sqrt_d_head)
        )
        ratios = [without / with_scale for without, with_scale in zip(plain, scaled, strict=True)]
        entropies.append(ratios[0])
        norms.append(ratios[1])
        rows.append(ratios[2])
        words.append(f"d_k {width}: {ratios[0]:.2f}, {ratios[1]:.2f}, {ratios[2]:.2g}")
    saturates, vanishes = entropies[-1] < 0.5, norms[-1] < 1
    return verdict(
        saturates and vanishes,
        "without / with scale: entropy, gradient norm of query and key maps (the missing factor "
        "alone makes it sqrt(d_k)), gradient of the median query's scores: "
        f"{'; '.join(words)}. The softmax "
        f"{'saturates' if saturates else 'does not saturate'}; the gradient of the maps "
        f"{'shrinks' if vanishes else 'does not vanish at the start, it grows'}"
        + ("" if vanishes or rows[-1] > 0.5 else ": few queries carry it, most get next to none"),
    )


def _layer_at_start(
    subject: Subject, width: int, scale: AttentionScale
) -> tuple[float, float, float]:
    """Mean entropy, gradient norm of the query and key maps, and median norm of a row's gradient.

    Heads of this width on 512 features, 64 random inputs, a random projection of the output.
    """
    torch.manual_seed(subject.config.seed)
    design = subject.design(attention_scale=scale, head_sharing=HeadSharing.multi_head)
    dims = replace(subject.dims, d_model=512, n_heads=512 // width, d_head=0)
    layer, x = Attention(design, dims, n_branches=1), torch.randn(2, 64, 512)
    with record_attention(layer) as records:
        output = layer(x, mask=AttentionMask())
    scores = records[0].scores
    scores.retain_grad()
    (output * torch.randn_like(output)).sum().backward()
    assert scores.grad is not None
    spread = entropy(records[0].weights.detach()).mean().item()
    return spread, query_key_gradients(layer)[""], scores.grad.norm(dim=-1).median().item()


def roles_of_heads(subject: Subject) -> Outcome:
    """A10: what the heads of the first layer look at, with one head and as configured."""
    single, several = (_first_statistics(subject, n_heads) for n_heads in (1, subject.dims.n_heads))
    even = subject.real_source.sum(-1).double()
    chance = ((even - 1) / even).sum() / even.sum()
    return Outcome(
        Verdict.not_applicable,
        "this model is untrained, and heads get roles, if at all, by training. At the start: one "
        f"head: uniformity {single.uniformity.item():.2f}; {subject.dims.n_heads} heads: "
        f"uniformity {_range(several.uniformity)}, distance {_range(several.distance)} tokens, "
        f"weight on the previous token {_range(several.previous_token)} (even attention "
        f"{chance.item():.2f}), on itself {_range(several.diagonal)}, similarity of heads "
        f"{several.redundancy:.2f}",
    )


def _first_statistics(subject: Subject, n_heads: int) -> HeadStatistics:
    sharing = HeadSharing.multi_head if n_heads == 1 else subject.config.design.head_sharing
    design = subject.design(head_sharing=sharing)
    model = subject.model(design, n_heads=n_heads, n_encoder_layers=1, n_decoder_layers=0)
    with torch.no_grad(), record_attention(model) as records:
        model.encode(subject.source, subject.source_lengths)
    return head_statistics(records[0], real=subject.real_source)


def _range(values: torch.Tensor) -> str:
    return f"{values.min().item():.2f} to {values.max().item():.2f}"


def parameters_of_heads(subject: Subject) -> Outcome:
    """A11: parameters of one attention layer, over the number of heads."""
    width, counts = subject.dims.d_model, {}
    for n_heads in (n for n in (1, 2, 4, 8, 16) if width % n == 0):
        with torch.device("meta"):
            dims = replace(subject.dims, n_heads=n_heads)
            layer = Attention(subject.config.design, dims, n_branches=1)
        counts[n_heads] = sum(parameter.numel() for parameter in layer.parameters())
    words = ", ".join(f"{n_heads}: {count:,}" for n_heads, count in counts.items())
    return verdict(max(counts.values()) == counts[1], f"parameters by number of heads: {words}")


def _heads_share_the_width(config: RunConfig) -> str:
    """Need: heads are slices of d_model, each with its own keys."""
    if config.dims.d_head:
        return f"dims.d_head={config.dims.d_head}: heads have a width of their own"
    sharing = config.design.head_sharing
    return "" if sharing is HeadSharing.multi_head else f"design.head_sharing={sharing}"


def memory_by_length(subject: Subject) -> Outcome:
    """A12: bytes of one layer over the length, explicit and fused."""
    dims, lengths = Dims(d_model=64, n_heads=4), (256, 512, 1024, 2048)
    design = subject.design(mask=MaskMethod.minus_inf)
    explicit, fused = (
        [attention_memory(design, dims, length=n, explicit=way) for n in lengths]
        for way in (True, False)
    )
    growth = [[b / a for a, b in pairwise(m)] for m in (explicit, fused)]
    linear = growth[1][-1] < 2.5
    return verdict(
        3.5 < growth[0][-1] < 4.1,
        f"{lengths[0]} to {lengths[-1]} tokens, by doubling: explicit x {_numbers(growth[0])}, "
        f"fused x {_numbers(growth[1])}; at {lengths[-1]} tokens {explicit[-1] / 2**20:.0f} "
        f"against {fused[-1] / 2**20:.1f} MiB kept for the backward pass. "
        + ("Only explicit attention keeps a square" if linear else "Here both keep a square"),
    )


def _numbers(values: list[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def wrong_split(subject: Subject) -> Outcome:
    """A13: heads reshaped without the transpose, in a causal decoder."""
    correct, wrong = (
        subject.model(
            subject.design(head_split=level, position=Position.none),
            stirred=True,
            n_encoder_layers=0,
            n_decoder_layers=1,
        )
        for level in (HeadSplit.correct, HeadSplit.interleaved_wrong)
    )
    with torch.no_grad():
        shapes = {tuple(subject.run(model).shape) for model in (correct, wrong)}
    leaks = [
        causal_leak(subject.decoder_states(model), subject.vectors(), position=LENGTH // 2)
        for model in (correct, wrong)
    ]
    return verdict(
        len(shapes) == 1 and leaks[1].largest > VISIBLE,
        f"same shapes, no error; leak of the future {leaks[1].largest:.2g} (correct split: "
        f"{leaks[0].largest:.1g}). Row {LENGTH // 2 + 1} of heads 1 to {subject.dims.n_heads} is "
        f"cut from tokens {_tokens_read(subject)}, not from token {LENGTH // 2 + 1}: not heads "
        "are mixed, but tokens",
    )


def _tokens_read(subject: Subject) -> str:
    """Which tokens a row in the middle of each head is cut from, under the wrong split."""
    n_heads = subject.dims.n_heads
    tokens = torch.arange(LENGTH).view(1, -1, 1).expand(1, LENGTH, subject.dims.d_model)
    rows = HeadSplit.interleaved_wrong(tokens, n_heads)[0, :, LENGTH // 2]
    read = [sorted({token + 1 for token in row.tolist()}) for row in rows]
    return ", ".join("+".join(map(str, tokens)) for tokens in read)


ATTENTION_CHECKS = (
    Check(
        id="A1",
        statement="the product of two random d_k-vectors has variance d_k, and 1 after dividing "
        "by sqrt(d_k)",
        expected="variance / d_k is 1 within 4 standard errors for d_k 4 to 512",
        measure=variance_of_scores,
        needs=(encoder,),
    ),
    Check(
        id="A2",
        statement="without the scale the softmax saturates and gradients vanish",
        expected="entropy and gradient norm of query and key maps fall against those with it",
        measure=without_scale,
    ),
)
HEAD_CHECKS = (
    Check(
        id="A10",
        statement="one head attends diffusely, several specialise",
        expected="nothing to see before training: all heads are alike and near even attention",
        measure=roles_of_heads,
        needs=(encoder,),
    ),
    Check(
        id="A11",
        statement="splitting into heads costs no parameters",
        expected="one count for every number of heads",
        measure=parameters_of_heads,
        needs=(_heads_share_the_width,),
    ),
    Check(
        id="A12",
        statement="attention memory grows with the square: twice the length, four times the memory",
        expected="explicit attention tends to x 4, fused attention to x 2",
        measure=memory_by_length,
    ),
    Check(
        id="A13",
        statement="heads split with the axes in the wrong order are mixed without any error",
        expected="same shapes; it is tokens that are mixed, and the future leaks",
        measure=wrong_split,
        needs=(several_heads, decoder),
    ),
)

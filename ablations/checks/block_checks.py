"""Checks of initial weights, the feed-forward network and size: N7, F1, F3 and F4."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from ablations.checks.check import Check, Outcome, decoder, encoder, feed_forward, verdict
from ablations.checks.subject import Subject
from lightning_modules.axes.feedforward import Activation, FeedForwardKind
from lightning_modules.axes.norms import NormKind, NormPosition, NormSharing
from lightning_modules.axes.positions import Position
from lightning_modules.costs import decoder_only_parameters, parameters_by_part, stack_parameters
from lightning_modules.design import Design, Dims
from lightning_modules.layers import Attention
from lightning_modules.masks import AttentionMask
from lightning_modules.probes import (
    head_statistics,
    query_key_gradients,
    record_attention,
)
from lightning_modules.transformer import DecoderOnly

ROUNDING = 1e-9
GAINS = (0.5, 1.0, 2.0, 4.0, 8.0)
GPT2_MEDIUM = Dims(d_model=1024, n_heads=16, d_ff=4096, n_decoder_layers=24, max_length=1024)
GPT2_VOCABULARY = 50257


def initial_gain(subject: Subject) -> Outcome:
    """N7: first attention maps and query/key gradients of the model, over the gain."""
    found = {gain: _start(subject, gain) for gain in GAINS}
    words = [
        f"gain {gain:g}: largest weight {largest:.2f}, uniformity {uniformity:.2f}, gradient "
        f"{gradient:.2g}"
        for gain, (largest, uniformity, gradient) in found.items()
    ]
    one_hot = found[8.0][0] > 0.8
    vanishes = found[8.0][2] < found[1.0][2]
    return verdict(
        one_hot and vanishes,
        f"{'; '.join(words)}. At gain 8 maps are {'' if one_hot else 'not '}nearly one-hot and the "
        f"gradient of query and key maps {'falls' if vanishes else 'does not vanish, it grows'}",
    )


def _start(subject: Subject, gain: float) -> tuple[float, float, float]:
    """Mean largest weight and uniformity of the first map, and the norm of query/key gradients."""
    model = subject.model(init_gain=gain)
    with record_attention(model) as records:
        logits = model.logits(subject.run(model))
    expected = subject.target.roll(-1, dims=1)
    nn.functional.cross_entropy(logits.flatten(0, 1), expected.flatten()).backward()
    norms = torch.tensor(list(query_key_gradients(model).values()))
    weights, real = records[0].weights.detach(), subject.real_source
    largest = weights.amax(-1).mean(1)[real].mean().item()
    uniformity = head_statistics(records[0], real=real).uniformity.mean().item()
    return largest, uniformity, norms.norm().item()


def linearity(subject: Subject) -> Outcome:
    """F1: how far attention, and stacks of nothing else, are from one linear map."""
    design = replace(
        subject.without_positions(),
        feed_forward=FeedForwardKind.none,
        activation=Activation.relu,
        norm_kind=NormKind.none,
        norm_position=NormPosition.pre,
        norm_sharing=NormSharing.separate,
    )
    model, depth = subject.model(design, n_decoder_layers=0), subject.dims.n_encoder_layers
    layer = Attention(design, subject.dims, n_branches=1).double()
    x, y = subject.vectors(), subject.vectors(seed=1)

    def attend(vectors: Tensor) -> Tensor:
        return layer(vectors, mask=AttentionMask())

    with torch.no_grad():
        with record_attention(layer) as records:
            attend(x)
        weights = records[0].weights

        def frozen(vectors: Tensor) -> Tensor:
            heads = design.head_split(layer.value(vectors), layer.n_shared)
            heads = heads.repeat_interleave(subject.dims.n_heads // layer.n_shared, dim=1)
            return layer.output((weights @ heads).transpose(1, 2).flatten(2))

        one, stack, control = (
            additivity_violation(states, x, y)
            for states in (attend, subject.encoder_states(model), frozen)
        )
    return verdict(
        max(one, stack) < ROUNDING,
        f"relative violation of f(x+y) = f(x) + f(y): one attention layer {one:.2g}, {depth} "
        f"layers without feed-forward and norms {stack:.2g}; with fixed weights {control:.1g}. "
        "Attention is linear in its values only: the weights depend on the input",
    )


def additivity_violation(states: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> float:
    """`|f(x+y) - f(x) - f(y) + f(0)| / |f(x+y) - f(0)|`; 0 for a linear map with a bias."""
    both, zero = states(x + y), states(torch.zeros_like(x))
    return ((both - states(x) - states(y) + zero).norm() / (both - zero).norm()).item()


def share_of_feed_forward(subject: Subject) -> Outcome:
    """F3: parameters of one block at d_ff = 4 d_model, and as configured."""
    words, shares = [], {}
    for d_ff in dict.fromkeys((4 * subject.dims.d_model, subject.dims.d_ff)):
        for name, cross in (("encoder", False), ("decoder with a memory", True)):
            dims = replace(subject.dims, d_ff=d_ff)
            one, none = (
                stack_parameters(
                    subject.config.design, dims, n_layers=n, causal=cross, cross_attention=cross
                )
                for n in (1, 0)
            )
            one.subtract(none)
            shares[name, d_ff] = one["feed_forward"] / one.total()
            words.append(f"{name}, ratio {d_ff / subject.dims.d_model:g}: {shares[name, d_ff]:.1%}")
    return verdict(
        shares["encoder", 4 * subject.dims.d_model] > 0.5,
        f"share of the feed-forward network in a block: {', '.join(words)}",
    )


def breakdown_of_gpt2_medium(subject: Subject) -> Outcome:
    """F4: parameters by part at the size of GPT-2 medium, from the config and built."""
    design = Design(position=Position.learned, activation=Activation.gelu)
    parts = decoder_only_parameters(design, GPT2_MEDIUM, vocabulary_size=GPT2_VOCABULARY)
    with torch.device("meta"):
        built = parameters_by_part(DecoderOnly(GPT2_VOCABULARY, design=design, dims=GPT2_MEDIUM))
    total = sum(parts.values())
    shares = {part: count / total for part, count in parts.items()}
    small = shares["attention"] < min(shares["embeddings"], shares["feed_forward"])
    words = ", ".join(f"{part} {share:.1%}" for part, share in shares.items() if share > 0)
    return verdict(
        built == parts and 345e6 < total < 360e6 and small,
        f"{total:,} parameters, {'the same' if built == parts else 'other'} when built: {words}. "
        f"Embeddings and feed-forward hold {shares['embeddings'] + shares['feed_forward']:.1%}"
        + (
            ""
            if small
            else ", but attention is not the small part: it holds "
            f"{parts['attention'] / parts['embeddings']:.1f} times the embeddings"
        ),
    )


BLOCK_CHECKS = (
    Check(
        id="N7",
        statement="a large initial scale makes first attention maps nearly one-hot and kills the "
        "gradient",
        expected="largest weight towards 1 and a falling query/key gradient as the gain grows",
        measure=initial_gain,
        needs=(encoder, decoder),
    ),
    Check(
        id="F1",
        statement="without feed-forward networks any depth is one linear map",
        expected="wrong: attention is not additive in its input, at any depth",
        measure=linearity,
        needs=(encoder,),
    ),
    Check(
        id="F3",
        statement="at d_ff = 4 d_model the feed-forward network holds most of a block",
        expected="two thirds of an encoder block, half of a decoder block with a memory",
        measure=share_of_feed_forward,
        needs=(feed_forward,),
    ),
    Check(
        id="F4",
        statement="embeddings and feed-forward networks hold most parameters, attention is the "
        "small part; GPT-2 medium has about 350 million",
        expected="about 355 million; feed-forward 57%, attention 28%, embeddings 15%: half wrong",
        measure=breakdown_of_gpt2_medium,
    ),
)

"""Checks of masking: A4 to A7, and G3, padding with a cache."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from ablations.checks.check import Check, Outcome, decoder, keeps, verdict
from ablations.checks.subject import LENGTH, Subject
from lightning_modules.axes.attention import CausalMask, MaskMethod
from lightning_modules.axes.positions import Position
from lightning_modules.layers import Attention
from lightning_modules.mask_probes import mask_behaviour
from lightning_modules.masks import AttentionMask
from lightning_modules.probes import Leak, cached_difference, causal_leak, record_attention
from lightning_modules.transformer import EncoderDecoder

ROUNDING, VISIBLE = 1e-9, 1e-6
FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def zeroing_after_softmax(subject: Subject) -> Outcome:
    """A4: weights and gradients of each way to hide keys, against -inf, in double precision."""
    zeroed, renormalised = (
        _against_minus_inf(method, seed=subject.config.seed)
        for method in (MaskMethod.post_softmax, MaskMethod.post_softmax_renormalised)
    )
    return verdict(
        min(zeroed) > VISIBLE,
        f"zeroed: weights differ by up to {zeroed[0]:.2g}, gradients by {zeroed[1]:.2g}; "
        f"zeroed and renormalised: {renormalised[0]:.1g} and {renormalised[1]:.1g}, "
        + ("the same function as -inf" if max(renormalised) < ROUNDING else "still another one"),
    )


def _against_minus_inf(method: MaskMethod, *, seed: int) -> tuple[float, float]:
    """Largest difference of weights, and of gradients to the scores, to those of -inf."""
    generator = torch.Generator().manual_seed(seed)
    scores, projection = torch.randn(2, 1, 4, 16, 16, generator=generator, dtype=torch.double)
    allowed = torch.ones(16, 16, dtype=torch.bool).tril()
    found = []
    for level in (method, MaskMethod.minus_inf):
        probed = scores.clone().requires_grad_()
        weights = level(probed, allowed)
        (gradient,) = torch.autograd.grad((weights * projection).sum(), probed)
        found.append((weights.detach(), gradient))
    (weights, gradient), (exact, exact_gradient) = found
    return (weights - exact).abs().max().item(), (gradient - exact_gradient).abs().max().item()


def finite_mask_value(subject: Subject) -> Outcome:
    """A5: -1e9 against -inf, bit for bit, in each format and in the model of the config."""
    words, behaviours = [], {}
    for name, dtype in FORMATS.items():
        found = behaviours[name] = mask_behaviour(MaskMethod.minus_1e9, dtype)
        words.append(
            f"{name}: can't be stored"
            if found.refused
            else f"{name}: {found.differing} of {found.compared} outputs differ, weight on hidden "
            f"keys {found.hidden_weight:g}, row without a key {found.empty_row:g} on every key"
        )
    differing, compared = _differing_in_model(subject)
    exact = behaviours["fp32"]
    leaves = exact.hidden_weight > 0 or exact.differing > 0 or differing > 0
    saying = (
        "a residue is there" if leaves else "no probability is left over for a model to exploit"
    )
    return verdict(
        leaves,
        f"{'; '.join(words)}; model in fp32: {differing} of {compared} states and gradients "
        f"differ. In fp32 {saying}: exp(-1e9) is exactly 0. Rows without any key are what differs",
    )


def _differing_in_model(subject: Subject) -> tuple[int, int]:
    """Numbers of states and gradients in fp32 that aren't the same bits, and of all compared."""
    minus_1e9, minus_inf = (
        _states_and_gradients(subject, method)
        for method in (MaskMethod.minus_1e9, MaskMethod.minus_inf)
    )
    pairs = list(zip(minus_1e9, minus_inf, strict=True))
    return sum(int((a != b).sum()) for a, b in pairs), sum(a.numel() for a, _ in pairs)


def _states_and_gradients(subject: Subject, method: MaskMethod) -> list[Tensor]:
    """In fp32, by the explicit path, with the padded source and the causal target."""
    model = subject.model(subject.design(mask=method)).float()
    with record_attention(model):
        states = subject.run(model)[subject.real_target]
    states.sin().sum().backward()
    return [states.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


def empty_row(subject: Subject) -> Outcome:
    """A6: a query without any key, by a plain softmax over -inf and by each level."""
    plain = torch.full((LENGTH,), -math.inf, dtype=torch.double, requires_grad=True)
    weights = plain.softmax(-1)
    (gradient,) = torch.autograd.grad(weights[0], plain)
    broken = bool(weights.isnan().all() and gradient.isnan().all())
    words = [f"{method}: {_row_without_key(method, subject)}" for method in MaskMethod]
    plain_word = "NaN in output and gradient" if broken else "finite"
    return verdict(broken, f"plain softmax: {plain_word}; levels here: {', '.join(words)}")


def _row_without_key(method: MaskMethod, subject: Subject) -> str:
    """The weights of the row, and whether the gradients of a layer stay finite."""
    torch.manual_seed(subject.config.seed)
    attention = Attention(subject.design(mask=method), subject.dims, n_branches=1).double()
    keep = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool)
    keep[..., 4, :] = False
    x = subject.vectors().requires_grad_()
    with record_attention(attention) as records:
        attention(x, mask=AttentionMask(keep=keep)).sum().backward()
    row = records[0].weights[0, 0, 4]
    gradients = [x.grad, *(p.grad for p in attention.parameters() if p.grad is not None)]
    finite = all(g.isfinite().all() for g in gradients if g is not None)
    return f"weight {row.max().item():.3g}, gradients {'finite' if finite else 'not finite'}"


def causal_mask(subject: Subject) -> Outcome:
    """A7: what the first position sees, and leaks of correct and leaky masks."""
    model = subject.model(subject.design(causal_mask=CausalMask.correct), stirred=True)
    with torch.no_grad(), record_attention(model) as records:
        subject.run(model)
    own = [r for r in records if r.name.startswith("decoder") and r.name.endswith("self_attention")]
    itself = min(record.weights[:, :, 0, 0].min().item() for record in own)
    correct, caught = list(_leaks(subject, model)), list[Leak]()
    schemes = [p for p in Position if subject.is_legal(subject.design(position=p))]
    for position in schemes:
        for level, found in ((CausalMask.correct, correct), (CausalMask.leaky, caught)):
            design = subject.design(position=position, causal_mask=level)
            small = subject.model(design, stirred=True, n_encoder_layers=0, n_decoder_layers=1)
            found += list(_leaks(subject, small))
    largest, smallest = max(c.largest for c in correct), min(c.largest for c in caught)
    return verdict(
        abs(itself - 1) < ROUNDING and largest < ROUNDING and smallest > VISIBLE,
        f"position 1 gives itself weight {itself:.6g}; correct mask: leak {largest:.1g} at most; "
        f"padding mask in its place: at least {smallest:.2g}, caught every time ({len(schemes)} "
        "position schemes, fused and explicit, by perturbation and gradient)"
        if smallest > VISIBLE
        else f"correct mask: leak {largest:.1g}; padding mask in its place: only {smallest:.1g}",
    )


def _leaks(subject: Subject, model: EncoderDecoder) -> Iterator[Leak]:
    """The causal leak of the decoder by the path its design takes, and by the explicit one."""
    states, x = subject.decoder_states(model), subject.vectors()
    yield causal_leak(states, x, position=LENGTH // 2)
    with record_attention(model):
        yield causal_leak(states, x, position=LENGTH // 2)


def padding_with_cache(subject: Subject) -> Outcome:
    """G3: stepwise decoding with a cache against one pass, on a padded batch."""
    model = subject.model(stirred=True)
    lengths, visible = subject.source_lengths, torch.full_like(subject.source_lengths, LENGTH)
    target, target_lengths = subject.target, subject.target_lengths
    with torch.no_grad():
        careful = cached_difference(model, subject.source, lengths, target, target_lengths)
        careless = subject.run(model) - model(subject.source, visible, target, target_lengths)
    careless = careless[subject.real_target].abs().max().item()
    return verdict(
        careful < ROUNDING and careless > VISIBLE,
        f"cached against full: {careful:.1g} at most; with the padding of the source left "
        f"visible, states change by {careless:.2g}: the mask must come along with the cache",
    )


MASK_CHECKS = (
    Check(
        id="A4",
        statement="zeroing weights after the softmax is not the same as hiding scores before it",
        expected="weights and gradients differ; renormalised, both equal those of -inf",
        measure=zeroing_after_softmax,
    ),
    Check(
        id="A5",
        statement="-1e9 in the causal mask leaves a probability that the model exploits, -inf none",
        expected="wrong in fp32: not one bit differs in rows with a key; fp16 can't store -1e9",
        measure=finite_mask_value,
        needs=(decoder,),
    ),
    Check(
        id="A6",
        statement="-inf on a row without any key gives NaN",
        expected="NaN from a plain softmax; the level minus_inf gives zeros, finite gradients",
        measure=empty_row,
    ),
    Check(
        id="A7",
        statement="under a correct causal mask position 1 sees itself only; mixing up two masks "
        "shows the future",
        expected="weight 1, no leak; the padding mask in its place leaks in every scheme",
        measure=causal_mask,
        needs=(decoder, keeps("causality", besides="causal_mask")),
    ),
)
CACHE_CHECKS = (
    Check(
        id="G3",
        statement="padding needs care with a key/value cache",
        expected="cached steps equal the full pass to 1e-9; without the mask they would not",
        measure=padding_with_cache,
        needs=(decoder, keeps("cached_decoding")),
    ),
)

"""Checks of positions: P1, P2, P3, P5 and P11."""

import math

import torch

from ablations.checks.check import Check, Outcome, encoder, keeps, verdict
from ablations.checks.subject import LENGTH, Subject
from ablations.config import RunConfig
from lightning_modules.axes.heads import HeadSplit
from lightning_modules.axes.positions import Position, sinusoids
from lightning_modules.masks import AttentionMask
from lightning_modules.probes import padding_leak, permutation_difference
from lightning_modules.transformer import Stack

ROUNDING, VISIBLE = 1e-9, 1e-6
POSITIONS = 512
OFFSETS = (1, 7, 64)


def order_blindness(subject: Subject) -> Outcome:
    """P1: permuted inputs, in an encoder without positions, as configured, and causal."""
    order = torch.randperm(LENGTH, generator=torch.Generator().manual_seed(subject.config.seed))
    blind, configured = (
        permutation_difference(
            subject.encoder_states(subject.model(design, stirred=True)),
            subject.vectors(),
            order=order,
        )
        for design in (subject.without_positions(), subject.config.design)
    )
    earlier, within = _causal_stack_reordered(subject)
    return verdict(
        blind < ROUNDING,
        f"encoder without positions: |f(Px) - Pf(x)| = {blind:.1g}; with design.position="
        f"{subject.config.design.position}: {configured:.2g}. A causal stack without positions is "
        f"not blind: two earlier tokens swapped change the state between them by {within:.2g}, and "
        f"the last state of two layers by {earlier:.2g}",
    )


def _causal_stack_reordered(subject: Subject) -> tuple[float, float]:
    """Change of the last state, and of one in between, when tokens 2 and 6 are swapped."""
    torch.manual_seed(subject.config.seed)
    design = subject.without_positions()
    stack = Stack(design, subject.dims, n_layers=2, causal=True).double().eval()
    x = subject.vectors()
    swapped = x.clone()
    swapped[:, [1, 5]] = x[:, [5, 1]]
    with torch.no_grad():
        mask = AttentionMask(causal=True)
        change = (stack(swapped, mask=mask) - stack(x, mask=mask)).abs()
    return change[:, -1].max().item(), change[:, 3].max().item()


def rotation_of_the_table(subject: Subject) -> Outcome:
    """P2: the map from row p to row p + k, by least squares for each pair of features."""
    n_pairs = subject.dims.d_model // 2
    rows = sinusoids(torch.arange(POSITIONS + max(OFFSETS)), 2 * n_pairs)
    pairs = rows.unflatten(1, (n_pairs, 2)).transpose(0, 1)
    residual, bend, spread = 0.0, 0.0, 0.0
    for offset in OFFSETS:
        start, end = pairs[:, :POSITIONS], pairs[:, offset : POSITIONS + offset]
        found = torch.linalg.lstsq(start, end).solution
        residual = max(residual, (start @ found - end).abs().max().item())
        square = found @ found.transpose(1, 2) - torch.eye(2, dtype=torch.double)
        bend = max(bend, square.abs().max().item())
        products = (rows[:POSITIONS] * rows[offset : POSITIONS + offset]).sum(-1)
        spread = max(spread, (products.max() - products.min()).item())
    return verdict(
        max(residual, bend, spread) < VISIBLE,
        f"offsets {', '.join(map(str, OFFSETS))} over {POSITIONS} positions: residual "
        f"{residual:.1g}, distance from a rotation {bend:.1g}, spread of PE(p)·PE(p+k) over p "
        f"{spread:.1g}",
    )


def speed_of_dimensions(subject: Subject) -> Outcome:
    """P3: sign changes and wavelength of the features of the table."""
    width = subject.dims.d_model
    rows = sinusoids(torch.arange(1000) + 0.5, width)
    changes = (rows[1:].sign() != rows[:-1].sign()).sum(0)
    even = changes[0::2]
    falling = bool((even[1:] <= even[:-1] + 1).all()) and bool(even[0] > even[-1])
    waves = [2 * math.pi * 10000 ** (2 * (i // 2) / width) for i in (0, width // 2, width - 1)]
    return verdict(
        falling,
        f"sign changes over 1,000 positions in features 0, {width // 2}, {width - 1}: "
        f"{changes[0]}, {changes[width // 2]}, {changes[-1]}; wavelengths {waves[0]:.1f}, "
        f"{waves[1]:.0f}, {waves[2]:.0f} tokens. The clock comparison that calls low-frequency "
        "features the second hand and high-frequency ones the hour hand is the wrong way round",
    )


def past_the_table(subject: Subject) -> Outcome:
    """P5: learned positions at the last position of the table and beyond it."""
    design = subject.design(position=Position.learned)
    longest = subject.config.dims.max_length
    stack = Stack(design, subject.config.dims, n_layers=0, causal=True).eval()
    inside = stack(torch.zeros(1, longest, subject.dims.d_model), mask=AttentionMask())
    try:
        stack(torch.zeros(1, longest + 1, subject.dims.d_model), mask=AttentionMask())
        refusal = ""
    except ValueError as error:
        refusal = str(error)
    return verdict(
        bool(refusal) and "\n" not in refusal and bool(inside.isfinite().all()),
        f"{longest} tokens run; {longest + 1} are refused: {refusal}"
        if refusal
        else f"{longest + 1} tokens ran",
    )


def positions_on_padding(subject: Subject) -> Outcome:
    """P11: whether padding, with its positions, reaches real states; by content and by amount."""
    model = subject.model(stirred=True)
    x, real = subject.vectors(), subject.real_source
    found = padding_leak(subject.encoder_states(model, padded=True), x, real=real)
    words = [f"encoder: {found.largest:.1g}"]
    largest = found.largest
    if subject.dims.n_decoder_layers:
        states = subject.decoder_states(model, padded=True)
        found = padding_leak(states, x, real=subject.real_target)
        words.append(f"decoder: {found.largest:.1g}")
        largest = max(largest, found.largest)
    with torch.no_grad():
        lengths, shortest = subject.source_lengths[-1:], int(subject.source_lengths[-1])
        padded, cut = (
            model.encode(tokens, lengths)[0][:, :shortest]
            for tokens in (subject.source[-1:], subject.source[-1:, :shortest])
        )
    amount = (padded - cut).abs().max().item()
    return verdict(
        max(largest, amount) < ROUNDING,
        f"largest change or gradient at real positions from the padding: {', '.join(words)}; "
        f"padding cut off: {amount:.1g}",
    )


def _has_positions(config: RunConfig) -> str:
    return "design.position=none" if config.design.position is Position.none else ""


def _several_waves(config: RunConfig) -> str:
    width = config.dims.d_model
    return "" if width > 3 else f"dims.d_model={width}: the table has no two waves"


def _correct_split(config: RunConfig) -> str:
    split = config.design.head_split
    return "" if split is HeadSplit.correct else f"design.head_split={split}: rows mix tokens"


POSITION_CHECKS = (
    Check(
        id="P1",
        statement="without positions self-attention is blind to order",
        expected="an encoder is equivariant to 1e-9; a causal stack is not (unsaid)",
        measure=order_blindness,
        needs=(encoder, _correct_split),
    ),
    Check(
        id="P2",
        statement="PE(p+k) is a fixed rotation of PE(p)",
        expected="residual below 1e-6; products of rows depend on k only",
        measure=rotation_of_the_table,
        needs=(_several_waves,),
    ),
    Check(
        id="P3",
        statement="low dimensions of the table oscillate fast, high ones slowly",
        expected="sign changes fall with the dimension; one sentence has it the wrong way round",
        measure=speed_of_dimensions,
        needs=(_several_waves,),
    ),
    Check(
        id="P5",
        statement="learned positions are undefined past their table",
        expected="refused in one sentence, no index error",
        measure=past_the_table,
    ),
    Check(
        id="P11",
        statement="positions added to padding are harmless once it is masked",
        expected="states at real positions do not change, to 1e-9",
        measure=positions_on_padding,
        needs=(encoder, _has_positions, keeps("padding_invariance")),
    ),
)

"""The design of a Transformer: its choices, its sizes, and what cannot be combined."""

from collections.abc import Callable
from dataclasses import dataclass, fields

from lightning_modules.axes.attention import AttentionScale, MaskMethod
from lightning_modules.axes.norms import NormPosition, NormSharing
from lightning_modules.axes.positions import Position
from lightning_modules.axis import Axis
from lightning_modules.optimization import Optim, Precision


@dataclass(frozen=True, kw_only=True)
class Design:
    """The choices, one field an axis. The default is the baseline."""

    attention_scale: AttentionScale = AttentionScale.sqrt_d_head
    mask: MaskMethod = MaskMethod.minus_inf
    norm_position: NormPosition = NormPosition.pre
    norm_sharing: NormSharing = NormSharing.separate
    position: Position = Position.sinusoidal


@dataclass(frozen=True, kw_only=True)
class Dims:
    """The sizes.

    Attributes:
        d_model: width of the residual stream.
        n_heads: attention heads; each is `d_model / n_heads` wide, so the parameters stay equal.
        d_ff: width of the feed-forward network.
        n_encoder_layers: blocks of the encoder.
        n_decoder_layers: blocks of the decoder.
        dropout: rate on embeddings and on the output of each sub-layer.
        attention_dropout: rate on attention weights (explicit attention only while training).
        feedforward_dropout: rate on the hidden layer of the feed-forward network.
        max_length: tokens in a learned position table; no other scheme has a limit.
    """

    d_model: int = 128
    n_heads: int = 4
    d_ff: int = 256
    n_encoder_layers: int = 4
    n_decoder_layers: int = 4
    dropout: float = 0.1
    attention_dropout: float = 0.0
    feedforward_dropout: float = 0.0
    max_length: int = 256

    @property
    def d_head(self) -> int:
        """Width of one attention head."""
        return self.d_model // self.n_heads


AXES: dict[str, type[Axis]] = {field.name: field.type for field in fields(Design)}  # type: ignore[misc]


@dataclass(frozen=True)
class Constraint:
    """A combination that has no meaning: where `holds` is false, `sentence` says why."""

    name: str
    sentence: str
    holds: Callable[[Design, Dims, Optim], bool]


CONSTRAINTS: tuple[Constraint, ...] = (
    Constraint(
        "sizes_positive",
        "dims.d_model {dims.d_model}, dims.n_heads {dims.n_heads}, dims.d_ff {dims.d_ff} and "
        "dims.max_length {dims.max_length} must be at least 1",
        lambda design, dims, optim: (
            min(dims.d_model, dims.n_heads, dims.d_ff, dims.max_length) >= 1
        ),
    ),
    Constraint(
        "heads_divide_width",
        "dims.n_heads {dims.n_heads} must divide dims.d_model {dims.d_model}; choose a divisor",
        lambda design, dims, optim: dims.n_heads < 1 or dims.d_model % dims.n_heads == 0,
    ),
    Constraint(
        "rope_even_head",
        "design.position rope rotates pairs, so the head width d_model / n_heads must be even, not "
        "{dims.d_head}; change dims.n_heads or dims.d_model, or choose another design.position",
        lambda design, dims, optim: design.position is not Position.rope or dims.d_head % 2 == 0,
    ),
    Constraint(
        "minus_1e9_fits_precision",
        "design.mask minus_1e9 cannot be stored with optim.precision fp16, whose largest value is "
        "65504; choose design.mask minus_inf, or optim.precision fp32 or bf16",
        lambda design, dims, optim: (
            design.mask is not MaskMethod.minus_1e9 or optim.precision is not Precision.fp16
        ),
    ),
    Constraint(
        "rates_are_shares",
        "dims.dropout {dims.dropout}, dims.attention_dropout {dims.attention_dropout} and "
        "dims.feedforward_dropout {dims.feedforward_dropout} must be at least 0 and below 1",
        lambda design, dims, optim: all(
            0 <= rate < 1
            for rate in (dims.dropout, dims.attention_dropout, dims.feedforward_dropout)
        ),
    ),
)


def violated(design: Design, dims: Dims, optim: Optim) -> list[str]:
    """The sentence of each constraint that this combination violates; empty when it is legal."""
    values = {"design": design, "dims": dims, "optim": optim}
    return [
        constraint.sentence.format(**values)
        for constraint in CONSTRAINTS
        if (constraint.name == "sizes_positive" or min(dims.d_model, dims.n_heads) >= 1)
        and not constraint.holds(design, dims, optim)
    ]

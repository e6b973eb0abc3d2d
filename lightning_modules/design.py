"""The design of a Transformer: its choices, its sizes, and what cannot be combined."""

from collections.abc import Callable
from dataclasses import dataclass, fields

from lightning_modules.axes.attention import AttentionScale, CausalMask, MaskMethod, QueryKeyNorm
from lightning_modules.axes.embeddings import EmbeddingScale, EmbeddingTying
from lightning_modules.axes.feedforward import Activation, FeedForwardKind
from lightning_modules.axes.heads import HeadSharing, HeadSplit
from lightning_modules.axes.initialization import Initialization
from lightning_modules.axes.injection import PositionInjection, RopeScaling
from lightning_modules.axes.norms import NormKind, NormPosition, NormSharing
from lightning_modules.axes.positions import Position
from lightning_modules.axes.residuals import ResidualKind
from lightning_modules.axis import Axis
from lightning_modules.optimization import Optim, Precision


@dataclass(frozen=True, kw_only=True)
class Design:
    """The choices, one field an axis. The default is the baseline."""

    attention_scale: AttentionScale = AttentionScale.sqrt_d_head
    mask: MaskMethod = MaskMethod.minus_inf
    causal_mask: CausalMask = CausalMask.correct
    query_key_norm: QueryKeyNorm = QueryKeyNorm.none
    head_split: HeadSplit = HeadSplit.correct
    head_sharing: HeadSharing = HeadSharing.multi_head
    position: Position = Position.sinusoidal
    position_injection: PositionInjection = PositionInjection.add
    rope_scaling: RopeScaling = RopeScaling.none
    norm_position: NormPosition = NormPosition.pre
    norm_kind: NormKind = NormKind.layer_norm
    norm_sharing: NormSharing = NormSharing.separate
    residual: ResidualKind = ResidualKind.add
    initialization: Initialization = Initialization.xavier
    feed_forward: FeedForwardKind = FeedForwardKind.mlp
    activation: Activation = Activation.relu
    embedding_scale: EmbeddingScale = EmbeddingScale.sqrt_d_model
    embedding_tying: EmbeddingTying = EmbeddingTying.all

    @property
    def mixing_level(self) -> str:
        """A level, as `AXIS LEVEL`, that mixes the rows of a batch; empty where there is none."""
        levels: dict[str, Axis] = vars(self)
        mixing = (n for n, level in levels.items() if "batch_independence" in level.value.breaks)
        return next((f"design.{name} {levels[name]}" for name in mixing), "")


@dataclass(frozen=True, kw_only=True)
class Dims:
    """The sizes.

    Attributes:
        d_model: width of the residual stream.
        n_heads: attention heads; each is `d_model / n_heads` wide, so the parameters stay equal.
        d_head: width of a head's queries and keys, whatever `n_heads`; 0 is `d_model / n_heads`.
            Values stay `d_model / n_heads` wide (Vaswani et al. 2017, table 3 row B).
        n_key_value_heads: sets of keys and values of design.head_sharing grouped_query.
        d_ff: width of the feed-forward network.
        n_encoder_layers: blocks of the encoder.
        n_decoder_layers: blocks of the decoder.
        dropout: rate on embeddings and on the output of each sub-layer.
        attention_dropout: rate on attention weights (explicit attention only while training).
        feedforward_dropout: rate on the hidden layer of the feed-forward network.
        max_length: tokens in a learned position table; no other scheme has a limit.
        rope_base: rotary positions turn pair i by `rope_base^(-2i/d_head)` a token.
        alibi_exponent: the smallest slope of ALiBi is 2 to the minus this.
        norm_epsilon: added to the variance that a norm divides by.
        init_gain: factor on the first weights of all maps inside blocks.
        embedding_rank: width of factorised token tables; 0 is not factorised.
    """

    d_model: int = 128
    n_heads: int = 4
    d_head: int = 0
    n_key_value_heads: int = 2
    d_ff: int = 256
    n_encoder_layers: int = 4
    n_decoder_layers: int = 4
    dropout: float = 0.1
    attention_dropout: float = 0.0
    feedforward_dropout: float = 0.0
    max_length: int = 256
    rope_base: float = 10000.0
    alibi_exponent: float = 8.0
    norm_epsilon: float = 1e-5
    init_gain: float = 1.0
    embedding_rank: int = 0

    @property
    def d_key(self) -> int:
        """Width of a head's queries and keys."""
        return self.d_head or self.d_value

    @property
    def d_value(self) -> int:
        """Width of a head's values."""
        return self.d_model // self.n_heads


AXES: dict[str, type[Axis]] = {field.name: field.type for field in fields(Design)}  # type: ignore[misc]


@dataclass(frozen=True)
class Constraint:
    """A combination that has no meaning: where `holds` is false, `sentence` says why.

    Those that are `first` make the sizes usable; the others are asked only when they hold.
    """

    name: str
    sentence: str
    holds: Callable[[Design, Dims, Optim], bool]
    first: bool = False


CONSTRAINTS: tuple[Constraint, ...] = (
    Constraint(
        "sizes_positive",
        "dims.d_model {dims.d_model}, dims.n_heads {dims.n_heads}, dims.n_key_value_heads "
        "{dims.n_key_value_heads}, dims.d_ff {dims.d_ff} and dims.max_length {dims.max_length} "
        "must be at least 1",
        lambda design, dims, optim: (
            min(dims.d_model, dims.n_heads, dims.n_key_value_heads, dims.d_ff, dims.max_length) >= 1
        ),
        first=True,
    ),
    Constraint(
        "layers_not_negative",
        "dims.n_encoder_layers {dims.n_encoder_layers}, dims.n_decoder_layers "
        "{dims.n_decoder_layers}, dims.d_head {dims.d_head} and dims.embedding_rank "
        "{dims.embedding_rank} must be at least 0",
        lambda design, dims, optim: (
            min(dims.n_encoder_layers, dims.n_decoder_layers, dims.d_head, dims.embedding_rank) >= 0
        ),
        first=True,
    ),
    Constraint(
        "numbers_positive",
        "dims.rope_base {dims.rope_base}, dims.alibi_exponent {dims.alibi_exponent}, "
        "dims.norm_epsilon {dims.norm_epsilon} and dims.init_gain {dims.init_gain} must be above 0",
        lambda design, dims, optim: (
            min(dims.rope_base, dims.alibi_exponent, dims.norm_epsilon, dims.init_gain) > 0
        ),
        first=True,
    ),
    Constraint(
        "rates_are_shares",
        "dims.dropout {dims.dropout}, dims.attention_dropout {dims.attention_dropout} and "
        "dims.feedforward_dropout {dims.feedforward_dropout} must be at least 0 and below 1",
        lambda design, dims, optim: all(
            0 <= rate < 1
            for rate in (dims.dropout, dims.attention_dropout, dims.feedforward_dropout)
        ),
        first=True,
    ),
    Constraint(
        "heads_divide_width",
        "dims.n_heads {dims.n_heads} must divide dims.d_model {dims.d_model}; choose a divisor",
        lambda design, dims, optim: dims.d_model % dims.n_heads == 0,
    ),
    Constraint(
        "groups_divide_heads",
        "design.head_sharing grouped_query needs dims.n_key_value_heads {dims.n_key_value_heads} "
        "to divide dims.n_heads {dims.n_heads}; choose a divisor",
        lambda design, dims, optim: (
            design.head_sharing is not HeadSharing.grouped_query
            or dims.n_heads % dims.n_key_value_heads == 0
        ),
    ),
    Constraint(
        "rope_even_head",
        "design.position rope rotates pairs, so the width of a query must be even, not "
        "{dims.d_key}; change dims.d_head, dims.n_heads or dims.d_model, or choose another "
        "design.position",
        lambda design, dims, optim: design.position is not Position.rope or dims.d_key % 2 == 0,
    ),
    Constraint(
        "rope_scaling_needs_rope",
        "design.rope_scaling {design.rope_scaling} acts on design.position rope, not on "
        "{design.position}; keep design.rope_scaling none",
        lambda design, dims, optim: (
            design.rope_scaling is RopeScaling.none or design.position is Position.rope
        ),
    ),
    Constraint(
        "injection_needs_vectors",
        "design.position_injection {design.position_injection} needs a vector for each position, "
        "which design.position {design.position} doesn't have; choose sinusoidal or learned",
        lambda design, dims, optim: (
            design.position_injection is PositionInjection.add
            or design.position.value.make.has_vectors  # type: ignore[attr-defined]
        ),
    ),
    Constraint(
        "norm_to_place_and_share",
        "design.norm_kind none leaves nothing to place or share; keep design.norm_position pre and "
        "design.norm_sharing separate",
        lambda design, dims, optim: (
            design.norm_kind is not NormKind.none
            or (design.norm_position, design.norm_sharing)
            == (NormPosition.pre, NormSharing.separate)
        ),
    ),
    Constraint(
        "activation_needs_feed_forward",
        "design.activation {design.activation} stands inside a feed-forward network, and "
        "design.feed_forward none has none; keep design.activation relu",
        lambda design, dims, optim: (
            design.feed_forward is not FeedForwardKind.none or design.activation is Activation.relu
        ),
    ),
    Constraint(
        "minus_1e9_fits_precision",
        "design.mask minus_1e9 cannot be stored with optim.precision fp16, whose largest value is "
        "65504; choose design.mask dtype_min or minus_inf, or optim.precision fp32 or bf16",
        lambda design, dims, optim: (
            design.mask is not MaskMethod.minus_1e9 or optim.precision is not Precision.fp16
        ),
    ),
)


def violated(design: Design, dims: Dims, optim: Optim) -> list[str]:
    """The sentence of each constraint that this combination violates; empty when it is legal."""
    values = {"design": design, "dims": dims, "optim": optim}
    for asked in (True, False):
        sentences = [
            constraint.sentence.format(**values)
            for constraint in CONSTRAINTS
            if constraint.first is asked and not constraint.holds(design, dims, optim)
        ]
        if sentences:
            return sentences
    return []

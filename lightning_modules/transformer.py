"""Encoder, decoder and encoder-decoder, all from the same block."""

from functools import partial

from torch import Tensor, nn

from lightning_modules.axes.embeddings import TokenTable
from lightning_modules.cache import Cache
from lightning_modules.design import Design, Dims
from lightning_modules.dropout import Dropout
from lightning_modules.layers import Block
from lightning_modules.masks import AttentionMask, real_positions
from lightning_modules.placement import Placement


class Stack(nn.Module):
    """Blocks with their position scheme and final norm.

    With `cross_attention` it is a decoder that reads a memory; without, an encoder, or where
    `causal` a decoder-only model.

    Args:
        design: the choices.
        dims: the sizes.
        n_layers: blocks.
        causal: whether its masks are causal.
        cross_attention: whether it reads a memory.
    """

    def __init__(
        self,
        design: Design,
        dims: Dims,
        *,
        n_layers: int,
        causal: bool,
        cross_attention: bool = False,
    ) -> None:
        super().__init__()
        self.position = design.position(design, dims, causal=causal)
        self.injection = design.position_injection(dims) if self.position.has_vectors else None
        self.dropout = Dropout(dims.dropout)
        make_norm = partial(design.norm_kind, dims.d_model, eps=dims.norm_epsilon)
        of_block = design.norm_sharing(make_norm)
        self.blocks = nn.ModuleList(
            Block(
                design,
                dims,
                make_norm=of_block(),
                n_layers=n_layers,
                cross_attention=cross_attention,
            )
            for _ in range(n_layers)
        )
        ends = n_layers > 0 and design.norm_position.ends_with_norm
        self.final_norm = None if ends else make_norm()

    def forward(
        self,
        x: Tensor,
        *,
        mask: AttentionMask,
        lengths: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: AttentionMask | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Map embeddings `(batch, length, d_model)` to states of the same shape.

        Args:
            x: embeddings; with a cache, those of the new positions only.
            mask: which positions each one may attend to.
            lengths: real positions in each row, `(batch,)`; None where all are.
            memory: the encoder's states, `(batch, memory_length, d_model)`.
            memory_mask: which of them may be attended to.
            cache: grows by the new positions.

        Raises:
            ValueError: the input is longer than the position scheme is defined for.
        """
        start, length = cache.length if cache else 0, x.shape[1]
        placement = Placement.of(
            self.position, self.injection, start=start, length=length, device=x.device
        )
        real = None if lengths is None else real_positions(lengths, length)
        x = self.dropout(placement.embed(x))
        for index, block in enumerate(self.blocks):
            x = block(
                x,
                mask=mask,
                placement=placement,
                real=real,
                memory=memory,
                memory_mask=memory_mask,
                cache=(cache.own[index], cache.memory[index]) if cache else None,
            )
        if cache:
            cache.length += length
        return x if self.final_norm is None else self.final_norm(x, real)


class EncoderDecoder(nn.Module):
    """The Transformer of Vaswani et al. 2017.

    Args:
        vocabulary_size: entries of the joint vocabulary.
        design: the choices.
        dims: the sizes.
    """

    def __init__(self, vocabulary_size: int, *, design: Design, dims: Dims) -> None:
        super().__init__()
        make = partial(TokenTable, vocabulary_size, dims.d_model, rank=dims.embedding_rank)
        self.source_table, self.target_table, self.output_table = design.embedding_tying(make)
        self.embedding_scale: float = design.embedding_scale(dims.d_model)
        self.decodes_causally: bool = design.causal_mask()
        self.encoder = Stack(design, dims, n_layers=dims.n_encoder_layers, causal=False)
        self.decoder = Stack(
            design, dims, n_layers=dims.n_decoder_layers, causal=True, cross_attention=True
        )

    @property
    def output_weight(self) -> Tensor:
        """The rows that states are compared with, `(vocabulary, width)`."""
        return self.output_table.rows.weight

    def encode(self, source: Tensor, source_lengths: Tensor) -> tuple[Tensor, AttentionMask]:
        """Read right-padded `source` `(batch, source_length)`.

        Returns:
            The memory `(batch, source_length, d_model)` and which of it may be attended to.
        """
        mask = AttentionMask.from_lengths(source_lengths, source.shape[1])
        vectors = self.source_table.read(source) * self.embedding_scale
        return self.encoder(vectors, mask=mask, lengths=source_lengths), mask

    def decode(
        self,
        target: Tensor,
        *,
        memory: Tensor,
        memory_mask: AttentionMask,
        target_lengths: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """States `(batch, target_length, width)` for `target` `(batch, target_length)`.

        `width` is that of the output table. `target_lengths` hides right padding from the levels
        that look at hidden keys all the same, and from the statistics of norms.
        """
        causal = self.decodes_causally
        mask = AttentionMask(causal=causal)
        if target_lengths is not None:
            mask = AttentionMask.from_lengths(target_lengths, target.shape[1], causal=causal)
        states = self.decoder(
            self.target_table.read(target) * self.embedding_scale,
            mask=mask,
            lengths=target_lengths,
            memory=memory,
            memory_mask=memory_mask,
            cache=cache,
        )
        return self.output_table.narrow(states)

    def forward(
        self,
        source: Tensor,
        source_lengths: Tensor,
        target: Tensor,
        target_lengths: Tensor | None = None,
    ) -> Tensor:
        """Decoder states `(batch, target_length, width)` under teacher forcing."""
        memory, memory_mask = self.encode(source, source_lengths)
        return self.decode(
            target, memory=memory, memory_mask=memory_mask, target_lengths=target_lengths
        )

    def logits(self, states: Tensor) -> Tensor:
        """States `(…, width)` to logits `(…, vocabulary)`."""
        return states @ self.output_weight.T


class DecoderOnly(nn.Module):
    """A causal stack over one sequence (Radford et al. 2018).

    Args:
        vocabulary_size: entries of the vocabulary.
        design: the choices.
        dims: the sizes; `n_decoder_layers` counts the blocks.
    """

    def __init__(self, vocabulary_size: int, *, design: Design, dims: Dims) -> None:
        super().__init__()
        make = partial(TokenTable, vocabulary_size, dims.d_model, rank=dims.embedding_rank)
        _, self.input_table, self.output_table = design.embedding_tying(make)
        self.embedding_scale: float = design.embedding_scale(dims.d_model)
        self.reads_causally: bool = design.causal_mask()
        self.decoder = Stack(design, dims, n_layers=dims.n_decoder_layers, causal=True)

    @property
    def output_weight(self) -> Tensor:
        """The rows that states are compared with, `(vocabulary, width)`."""
        return self.output_table.rows.weight

    def forward(
        self, tokens: Tensor, lengths: Tensor | None = None, *, cache: Cache | None = None
    ) -> Tensor:
        """States `(batch, length, width)` for right-padded `tokens` `(batch, length)`.

        With a cache, `tokens` are the new ones only.
        """
        causal = self.reads_causally
        mask = AttentionMask(causal=causal)
        if lengths is not None:
            mask = AttentionMask.from_lengths(lengths, tokens.shape[1], causal=causal)
        vectors = self.input_table.read(tokens) * self.embedding_scale
        states = self.decoder(vectors, mask=mask, lengths=lengths, cache=cache)
        return self.output_table.narrow(states)

    def logits(self, states: Tensor) -> Tensor:
        """States `(…, width)` to logits `(…, vocabulary)`."""
        return states @ self.output_weight.T

"""Encoder, decoder and encoder-decoder, all from the same block."""

import math

import torch
from torch import Tensor, nn

from lightning_modules.cache import Cache
from lightning_modules.design import Design, Dims
from lightning_modules.layers import Block
from lightning_modules.masks import AttentionMask


class Stack(nn.Module):
    """Blocks with their position scheme and final norm.

    With `cross_attention` it is a decoder that reads a memory; without, an encoder, or with a
    causal mask a decoder-only model.
    """

    def __init__(
        self, design: Design, dims: Dims, *, n_layers: int, cross_attention: bool = False
    ) -> None:
        super().__init__()
        self.position = design.position(
            d_model=dims.d_model, n_heads=dims.n_heads, max_length=dims.max_length
        )
        self.dropout = nn.Dropout(dims.dropout)
        blocks = [Block(design, dims, cross_attention=cross_attention) for _ in range(n_layers)]
        self.blocks = nn.ModuleList(blocks)
        ends = all(block.around_feed_forward.ends_with_norm for block in blocks)
        self.final_norm = nn.Identity() if ends else nn.LayerNorm(dims.d_model)

    def forward(
        self,
        x: Tensor,
        *,
        mask: AttentionMask,
        memory: Tensor | None = None,
        memory_mask: AttentionMask | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Map embeddings `(batch, length, d_model)` to states of the same shape.

        Args:
            x: embeddings; with a cache, those of the new positions only.
            mask: which positions each one may attend to.
            memory: the encoder's states, `(batch, memory_length, d_model)`.
            memory_mask: which of them may be attended to.
            cache: grows by the new positions.
        """
        offset = cache.length if cache else 0
        positions = torch.arange(offset, offset + x.shape[1], device=x.device)
        x = self.dropout(self.position.embed(x, positions))
        for index, block in enumerate(self.blocks):
            x = block(
                x,
                mask=mask,
                position=self.position,
                positions=positions,
                memory=memory,
                memory_mask=memory_mask,
                cache=(cache.own[index], cache.memory[index]) if cache else None,
            )
        if cache:
            cache.length += x.shape[1]
        return self.final_norm(x)


class EncoderDecoder(nn.Module):
    """The Transformer of Vaswani et al. 2017, with one table for source, target and output.

    Args:
        vocabulary_size: entries of the joint vocabulary.
        design: the choices.
        dims: the sizes.
    """

    def __init__(self, vocabulary_size: int, *, design: Design, dims: Dims) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, dims.d_model)
        nn.init.normal_(self.embedding.weight, std=dims.d_model**-0.5)
        self.embedding_scale = math.sqrt(dims.d_model)
        self.encoder = Stack(design, dims, n_layers=dims.n_encoder_layers)
        self.decoder = Stack(design, dims, n_layers=dims.n_decoder_layers, cross_attention=True)

    @property
    def output_weight(self) -> Tensor:
        """The output projection `(vocabulary, d_model)`: the embedding table."""
        return self.embedding.weight

    def embed(self, tokens: Tensor) -> Tensor:
        """Token ids `(batch, length)` to embeddings `(batch, length, d_model)`."""
        return self.embedding(tokens) * self.embedding_scale

    def encode(self, source: Tensor, source_lengths: Tensor) -> tuple[Tensor, AttentionMask]:
        """Read right-padded `source` `(batch, source_length)`.

        Returns:
            The memory `(batch, source_length, d_model)` and which of it may be attended to.
        """
        mask = AttentionMask.from_lengths(source_lengths, source.shape[1])
        return self.encoder(self.embed(source), mask=mask), mask

    def decode(
        self,
        target: Tensor,
        *,
        memory: Tensor,
        memory_mask: AttentionMask,
        target_lengths: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """States `(batch, target_length, d_model)` for `target` `(batch, target_length)`.

        Real positions never see right padding, since the mask is causal; `target_lengths` hides
        it from the levels that look at hidden keys all the same.
        """
        mask = AttentionMask(causal=True)
        if target_lengths is not None:
            mask = AttentionMask.from_lengths(target_lengths, target.shape[1], causal=True)
        return self.decoder(
            self.embed(target), mask=mask, memory=memory, memory_mask=memory_mask, cache=cache
        )

    def forward(self, source: Tensor, source_lengths: Tensor, target: Tensor) -> Tensor:
        """Decoder states `(batch, target_length, d_model)` under teacher forcing."""
        memory, memory_mask = self.encode(source, source_lengths)
        return self.decode(target, memory=memory, memory_mask=memory_mask)

    def logits(self, states: Tensor) -> Tensor:
        """States `(…, d_model)` to logits `(…, vocabulary)`."""
        return states @ self.output_weight.T

"""The training loop that one would write without this project, for comparison.

`torch.nn.Transformer`, sentences shuffled and padded to the longest of their batch, whole logits.
The model, the places of dropout, the optimiser and the initialisation are those of our baseline.
"""

import math
import random
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from data.batches import PAD_ID, TranslationBatch, translation_batch
from data.tokenized_pairs import Ids
from lightning_modules.design import Dims
from lightning_modules.optimization import Optim

LONGEST = 512


class PlainTransformer(nn.Module):
    """Embeddings that all sides share, sinusoidal positions, and PyTorch's own Transformer."""

    positions: Tensor

    def __init__(self, vocabulary_size: int, dims: Dims) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, dims.d_model)
        nn.init.normal_(self.embedding.weight, std=dims.d_model**-0.5)
        self.dropout = nn.Dropout(dims.dropout)
        self.register_buffer("positions", _sinusoid(LONGEST, dims.d_model))
        layer = nn.TransformerEncoderLayer(
            dims.d_model, dims.n_heads, dims.d_ff, dims.dropout, batch_first=True, norm_first=True
        )
        norm = nn.LayerNorm(dims.d_model)
        encoder = nn.TransformerEncoder(
            layer, dims.n_encoder_layers, norm, enable_nested_tensor=False
        )
        self.transformer = nn.Transformer(
            dims.d_model,
            dims.n_heads,
            num_decoder_layers=dims.n_decoder_layers,
            dim_feedforward=dims.d_ff,
            dropout=dims.dropout,
            custom_encoder=encoder,
            batch_first=True,
            norm_first=True,
        )
        self._keep_dropout_to_outputs()

    def _keep_dropout_to_outputs(self) -> None:
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0

    def embed(self, tokens: Tensor) -> Tensor:
        """Token ids `(batch, length)` to vectors with positions."""
        vectors = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(vectors + self.positions[: tokens.shape[1]])

    def forward(self, batch: TranslationBatch) -> Tensor:
        """Logits `(batch, target_length, vocabulary)`."""
        source_padding, target_padding = batch.source == PAD_ID, batch.target_input == PAD_ID
        length = batch.target_input.shape[1]
        states = self.transformer(
            self.embed(batch.source),
            self.embed(batch.target_input),
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            src_key_padding_mask=source_padding,
            tgt_key_padding_mask=target_padding,
            memory_key_padding_mask=source_padding,
            tgt_is_causal=True,
        )
        return states @ self.embedding.weight.T


def _sinusoid(length: int, width: int) -> Tensor:
    rates = 10000 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def train(
    model: PlainTransformer, pairs: Sequence[Ids], *, optim: Optim, batch_size: int, max_steps: int
) -> Iterator[int]:
    """Train, and give the number of targets after each update."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=optim.lr, betas=(0.9, optim.beta2), eps=1e-9, weight_decay=0.0
    )
    factor = optim.schedule(optim.warmup_steps, max_steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    for batch in _shuffled_batches(pairs, batch_size=batch_size, count=max_steps):
        logits = model(batch)
        mean_loss = F.cross_entropy(
            logits.flatten(0, 1),
            batch.target_output.flatten(),
            ignore_index=PAD_ID,
            label_smoothing=optim.label_smoothing,
        )
        optimizer.zero_grad()
        mean_loss.backward()
        clip_grad_norm_(model.parameters(), optim.clip_norm)
        optimizer.step()
        schedule.step()
        mean_loss.item()  # printed or plotted, as one does
        yield int(batch.target_lengths.sum())


def _shuffled_batches(
    pairs: Sequence[Ids], *, batch_size: int, count: int
) -> Iterator[TranslationBatch]:
    order: list[int] = []
    for _ in range(count):
        if len(order) < batch_size:
            order = random.sample(range(len(pairs)), len(pairs))
        rows = [order.pop() for _ in range(batch_size)]
        yield translation_batch([pairs[row] for row in rows], rows)


@torch.no_grad()
def loss(model: PlainTransformer, batches: Sequence[TranslationBatch]) -> float:
    """Nats per target token, without smoothing and dropout."""
    model.eval()
    total = sum(
        F.cross_entropy(
            model(batch).flatten(0, 1),
            batch.target_output.flatten(),
            ignore_index=PAD_ID,
            reduction="sum",
        ).item()
        for batch in batches
    )
    return total / sum(int(batch.target_lengths.sum()) for batch in batches)

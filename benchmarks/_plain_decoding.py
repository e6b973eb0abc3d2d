"""Greedy decoding as one would write it without this project, for comparison.

`torch.nn.Transformer` with the weights of one of ours, sentences in the order of the file, the
decoder over the whole of what is written at each step, until the last row of the batch has ended.
The memory is computed once, and logits for the last position only.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from benchmarks._plain_loop import PlainTransformer
from data.batches import BOS_ID, EOS_ID, PAD_ID, TranslationBatch
from lightning_modules.axes.feedforward import FeedForward
from lightning_modules.axes.norms import Wiring
from lightning_modules.design import Design, Dims
from lightning_modules.layers import Attention, Block
from lightning_modules.sampling import NEVER_GENERATED
from lightning_modules.transformer import EncoderDecoder, Stack

BATCH_SIZE = 128  # sentences


def is_plain(design: Design, dims: Dims) -> bool:
    """Whether PyTorch's own Transformer computes the same function."""
    return design == Design() and dims.d_head == dims.embedding_rank == 0


@torch.no_grad()
def plain_copy(model: EncoderDecoder, dims: Dims) -> PlainTransformer:
    """PyTorch's own Transformer with the weights of `model`, in evaluation mode."""
    copy = PlainTransformer(len(model.output_weight), dims).eval()
    copy.embedding.weight.copy_(model.output_weight)
    _copy_stack(model.encoder, copy.transformer.encoder)
    _copy_stack(model.decoder, copy.transformer.decoder)
    return copy


def _copy_stack(stack: Stack, theirs: nn.TransformerEncoder | nn.TransformerDecoder) -> None:
    for block, layer in zip(stack.blocks, theirs.layers, strict=True):
        assert isinstance(block, Block)
        assert isinstance(layer, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer)
        _copy_block(block, layer)
    assert theirs.norm is not None
    assert stack.final_norm is not None
    theirs.norm.load_state_dict(stack.final_norm.state_dict())


def _copy_block(
    block: Block, layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
) -> None:
    norms = [block.around_self, block.around_feed_forward]
    _copy_attention(block.self_attention, layer.self_attn)
    if isinstance(layer, nn.TransformerDecoderLayer):
        assert block.cross_attention is not None
        _copy_attention(block.cross_attention, layer.multihead_attn)
        norms.insert(1, block.around_cross)
    assert isinstance(block.feed_forward, FeedForward)
    layer.linear1.load_state_dict(block.feed_forward.inner.state_dict())
    layer.linear2.load_state_dict(block.feed_forward.outer.state_dict())
    for index, wiring in enumerate(norms, start=1):
        assert isinstance(wiring, Wiring)
        getattr(layer, f"norm{index}").load_state_dict(wiring.norm.state_dict())


def _copy_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    maps = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.copy_(torch.cat([each.weight for each in maps]))
    theirs.in_proj_bias.copy_(torch.cat([each.bias for each in maps]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def in_file_order(batches: Sequence[TranslationBatch]) -> list[list[int]]:
    """The sources of some batches, without padding, in the order of the file."""
    rows = {
        int(index): source[: int(length)].tolist()
        for batch in batches
        for index, source, length in zip(
            batch.indices, batch.source, batch.source_lengths, strict=True
        )
    }
    return [rows[index] for index in sorted(rows)]


@torch.no_grad()
def greedy(model: PlainTransformer, sources: Sequence[list[int]]) -> list[list[int]]:
    """Token ids of each row, without special tokens; limits as in `greedy_search`."""
    rows = []
    for start in range(0, len(sources), BATCH_SIZE):
        batch = [torch.tensor(ids) for ids in sources[start : start + BATCH_SIZE]]
        padded = nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=PAD_ID)
        written = _write(model, padded).tolist()
        for ids, source in zip(written, batch, strict=True):
            own = ids[1 : 1 + 2 * len(source) + 10]
            rows.append(own[: own.index(EOS_ID)] if EOS_ID in own else own)
    return rows


def _write(model: PlainTransformer, source: Tensor) -> Tensor:
    hidden = source == PAD_ID
    memory = model.transformer.encoder(model.embed(source), src_key_padding_mask=hidden)
    written = torch.full((len(source), 1), BOS_ID)
    ended = torch.zeros(len(source), dtype=torch.bool)
    for length in range(1, 2 * source.shape[1] + 11):
        states = model.transformer.decoder(
            model.embed(written),
            memory,
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            memory_key_padding_mask=hidden,
            tgt_is_causal=True,
        )
        logits = states[:, -1] @ model.embedding.weight.T
        logits[:, NEVER_GENERATED] = float("-inf")
        chosen = logits.argmax(-1)
        written = torch.cat([written, chosen[:, None]], dim=1)
        ended |= chosen == EOS_ID
        if ended.all():
            break
    return written

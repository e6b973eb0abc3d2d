"""What a design costs, from its config alone, against built models and what torch counts."""

import dataclasses

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from lightning_modules import costs
from lightning_modules.axes.feedforward import Activation
from lightning_modules.axes.positions import Position
from lightning_modules.design import Design
from lightning_modules.memory import attention_memory
from lightning_modules.probes import record_attention
from lightning_modules.transformer import DecoderOnly, EncoderDecoder
from tests.lightning_modules.designs import TINY, VOCABULARY, build, name, pairwise_cover, tokens

COVER = pairwise_cover()


def on_meta(kind: type[nn.Module], design: Design, rank: int) -> nn.Module:
    with torch.device("meta"):
        dims = dataclasses.replace(TINY, embedding_rank=rank)
        return kind(VOCABULARY, design=design, dims=dims)


@pytest.mark.parametrize("design", COVER, ids=name)
def test_parameters_of_the_config_are_those_of_the_model(design: Design) -> None:
    rank = 4 * (COVER.index(design) % 2)
    dims = dataclasses.replace(TINY, embedding_rank=rank)
    for kind, count in (
        (EncoderDecoder, costs.encoder_decoder_parameters),
        (DecoderOnly, costs.decoder_only_parameters),
    ):
        model = on_meta(kind, design, rank)
        built = costs.parameters_by_part(model)
        assert count(design, dims, vocabulary_size=VOCABULARY) == built
        assert sum(built.values()) == sum(p.numel() for p in model.parameters())
        assert built["other"] == 0


def test_what_belongs_to_no_part_is_counted_as_other() -> None:
    model = nn.ModuleDict({"known": on_meta(DecoderOnly, Design(), 0), "head": nn.Linear(3, 2)})
    assert costs.parameters_by_part(model)["other"] == 8


def test_gpt2_medium_has_355_million_parameters() -> None:
    """Radford et al. 2019, table 2; the published weights hold 354,823,168."""
    dims = dataclasses.replace(
        TINY, d_model=1024, n_heads=16, d_ff=4096, n_decoder_layers=24, max_length=1024
    )
    design = Design(position=Position.learned, activation=Activation.gelu)
    parts = costs.decoder_only_parameters(design, dims, vocabulary_size=50257)
    assert sum(parts.values()) == 354_823_168
    assert parts["attention"] == 24 * 4 * (1024**2 + 1024)
    assert parts["embeddings"] == 50257 * 1024
    assert parts["feed_forward"] == 24 * (2 * 1024 * 4096 + 4096 + 1024)


@pytest.mark.parametrize("design", COVER[::3], ids=name)
def test_operations_are_those_that_torch_counts(design: Design) -> None:
    """On the explicit path; the products of Shaw's positions are known not to be counted."""
    dims = dataclasses.replace(TINY, embedding_rank=4 if design.activation.name == "gelu" else 0)
    model = build(design, dims=dims)
    with FlopCounterMode(display=False) as counted, record_attention(model):
        model.logits(model(tokens(1, 9), torch.tensor([9]), tokens(1, 7)))
    found = costs.encoder_decoder_flops(
        design, dims, vocabulary_size=VOCABULARY, source_length=9, target_length=7
    )
    shaw = 2 * 33 * dims.d_key * dims.n_heads * 2 * (9 + 7)
    left_out = shaw if design.position is Position.shaw else 0
    assert counted.get_total_flops() == found + left_out


def test_explicit_attention_keeps_a_square_and_fused_attention_does_not() -> None:
    explicit, fused = (
        [attention_memory(Design(), TINY, length=n, explicit=way) for n in (256, 512)]
        for way in (True, False)
    )
    assert 3.7 < explicit[1] / explicit[0] < 4
    assert fused[1] / fused[0] == pytest.approx(2)
    # Four heads keep at least one weight, of four bytes, for each pair of tokens.
    assert explicit[1] > 4 * 4 * 512**2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: its peak can't be measured")
def test_peak_memory_on_a_gpu() -> None:
    explicit, fused = (
        [
            attention_memory(Design(), TINY, length=n, explicit=way, device="cuda")
            for n in (1024, 2048)
        ]
        for way in (True, False)
    )
    assert explicit[1] / explicit[0] > 3
    assert fused[1] / fused[0] < 3

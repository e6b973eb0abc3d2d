"""Norms, residuals, first weights, feed-forward networks and embeddings, against their oracles."""

import dataclasses
import statistics
from functools import partial

import pytest
import torch
from torch import nn

from lightning_modules.axes.embeddings import EmbeddingScale, EmbeddingTying
from lightning_modules.axes.feedforward import Activation, FeedForwardKind
from lightning_modules.axes.initialization import Initialization, make_linear
from lightning_modules.axes.norms import NormKind, NormPosition, NormSharing
from lightning_modules.axes.residuals import Residual, ResidualKind
from lightning_modules.design import Design, Dims
from lightning_modules.layers import make_feed_forward
from lightning_modules.transformer import EncoderDecoder
from tests import oracles
from tests.lightning_modules.designs import TINY, build, tokens


@pytest.mark.parametrize("level", NormPosition)
def test_norm_position(level: NormPosition) -> None:
    torch.manual_seed(0)
    make_norm = partial(NormKind.layer_norm, 8, eps=1e-5)
    wiring, sublayer = level(make_norm, Residual(1), nn.Identity()), nn.Linear(8, 8)
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(wiring(x, sublayer), oracles.WIRINGS[level.name](x, sublayer))


@pytest.mark.parametrize("level", NormKind)
def test_norm_kind(level: NormKind) -> None:
    x = 3 + 2 * torch.randn(2, 3, 8, dtype=torch.double)
    norm = level(8, eps=1e-5).double()
    torch.testing.assert_close(norm(x), oracles.NORMS[level.name](x))


def test_batch_statistics_leave_padding_out() -> None:
    norm = NormKind.batch_norm_masked(8, eps=1e-5).double()
    x = torch.randn(2, 3, 8, dtype=torch.double)
    padded = nn.functional.pad(x, (0, 0, 0, 2), value=7.0)
    real = torch.arange(5).expand(2, 5) < 3
    torch.testing.assert_close(norm(padded, real)[:, :3], oracles.batch_norm(x))
    mean = x.mean((0, 1))
    torch.testing.assert_close(norm.running_mean, 0.1 * mean)
    assert norm.eval()(padded, real).shape == padded.shape


@pytest.mark.parametrize("level", NormSharing)
def test_norm_sharing_counts(level: NormSharing) -> None:
    decoder = build(Design(norm_sharing=level)).decoder
    norms = {id(module) for module in decoder.modules() if isinstance(module, nn.LayerNorm)}
    assert len(norms - {id(decoder.final_norm)}) == oracles.NORMS_OF_STACK[level.name]
    assert id(decoder.final_norm) in norms


@pytest.mark.parametrize("level", ResidualKind)
def test_residual(level: ResidualKind) -> None:
    residual = level(9)
    for weight in residual.parameters():
        assert weight == 0
        nn.init.constant_(weight, 0.5)
    x, branch = torch.randn(2, 2, 3, 4)
    expected = oracles.RESIDUALS[level.name](x, branch)
    torch.testing.assert_close(residual(x, branch), expected)


def test_rezero_begins_as_the_identity() -> None:
    residual = ResidualKind.rezero(9)
    x, branch = torch.randn(2, 2, 3, 4)
    assert torch.equal(residual(x, branch), x)


@pytest.mark.parametrize("level", Initialization)
@pytest.mark.parametrize(("n_inputs", "n_outputs", "n_branches"), [(400, 300, 1), (200, 600, 9)])
@pytest.mark.parametrize("gain", [1.0, 3.0])
def test_initialization(
    level: Initialization, n_inputs: int, n_outputs: int, n_branches: int, gain: float
) -> None:
    torch.manual_seed(0)
    linear = make_linear(
        n_inputs, n_outputs, level=level, gain=gain, d_model=64, n_branches=n_branches
    )
    deviation = oracles.DEVIATIONS[level.name](n_inputs, n_outputs, n_branches)
    weights = linear.weight.flatten().tolist()
    assert statistics.fmean(weights) == pytest.approx(0, abs=0.02 * gain * deviation)
    assert statistics.pstdev(weights) == pytest.approx(gain * deviation, rel=0.02)
    assert (linear.bias.abs().max() > 0) == (level is Initialization.default)


def test_only_maps_that_end_a_branch_are_scaled_by_depth() -> None:
    """Radford et al. 2019, section 2.3: 2 layers of 3 branches give .02 / sqrt(6)."""
    torch.manual_seed(0)
    dims = Dims(d_model=128, n_decoder_layers=2)
    design = Design(initialization=Initialization.depth_scaled)
    block = EncoderDecoder(9, design=design, dims=dims).decoder.blocks[0]
    ends = {block.self_attention.output, block.cross_attention.output, block.feed_forward.outer}
    for module in block.modules():
        if isinstance(module, nn.Linear):
            expected = 0.02 * (6**-0.5 if module in ends else 1)
            assert module.weight.std().item() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("level", FeedForwardKind)
def test_feed_forward(level: FeedForwardKind) -> None:
    network = make_feed_forward(Design(feed_forward=level), TINY, n_branches=1)
    if not level.built:
        assert network is None
        assert oracles.FEED_FORWARDS[level.name] is None
        return
    x = torch.randn(2, 3, 16)
    weights = {name.split(".")[0]: p for name, p in network.named_parameters() if p.dim() == 2}
    expected = oracles.FEED_FORWARDS[level.name](x, weights)
    torch.testing.assert_close(network(x), expected, atol=1e-5, rtol=1e-5)


def test_a_gate_at_equal_parameters() -> None:
    dims = Dims(d_model=96, d_ff=384)
    count = {
        level.name: sum(p.numel() for p in network.parameters())
        for level in FeedForwardKind
        if (network := make_feed_forward(Design(feed_forward=level), dims, n_branches=1))
    }
    assert count["gated_equal_parameters"] == pytest.approx(count["mlp"], rel=0.01)
    assert count["gated"] == pytest.approx(1.5 * count["mlp"], rel=0.01)


@pytest.mark.parametrize("level", Activation)
def test_activation(level: Activation) -> None:
    values = [-3.0, -0.5, 0.0, 0.7, 4.0]
    activated = level(torch.tensor(values, dtype=torch.double)).tolist()
    assert activated == pytest.approx([oracles.ACTIVATIONS[level.name](x) for x in values])


@pytest.mark.parametrize("level", EmbeddingScale)
def test_embedding_scale(level: EmbeddingScale) -> None:
    assert level(16) == pytest.approx(oracles.EMBEDDING_SCALES[level.name](16))
    assert build(Design(embedding_scale=level)).embedding_scale == level(16)


@pytest.mark.parametrize("level", EmbeddingTying)
def test_embedding_tying(level: EmbeddingTying) -> None:
    model = build(Design(embedding_tying=level))
    tables = (model.source_table, model.target_table, model.output_table)
    assert len(set(map(id, tables))) == oracles.TABLES[level.name]
    assert (model.target_table is model.output_table) == (level is not EmbeddingTying.none)


def test_factorised_tables_are_a_product_of_two_matrices() -> None:
    model = build(Design(), dims=dataclasses.replace(TINY, embedding_rank=3))
    table = model.output_table
    whole = table.rows.weight @ table.wider.weight.T
    ids, states = tokens(2, 5), torch.randn(2, 5, 16, dtype=torch.double)
    torch.testing.assert_close(table.read(ids), whole[ids])
    torch.testing.assert_close(model.logits(table.narrow(states)), states @ whole.T)
    assert sum(p.numel() for p in table.parameters()) == 37 * 3 + 16 * 3

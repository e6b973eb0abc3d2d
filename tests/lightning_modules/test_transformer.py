"""Parity with PyTorch, and the fused path against the explicit one."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from lightning_modules import layers
from lightning_modules.axes.attention import MaskMethod
from lightning_modules.axes.norms import NormPosition
from lightning_modules.axes.positions import Position, sinusoids
from lightning_modules.design import Design
from lightning_modules.transformer import EncoderDecoder
from tests.lightning_modules.designs import TINY, build, name, pairwise_cover, tokens

SOURCE, LENGTHS, TARGET = tokens(3, 7), torch.tensor([7, 5, 3]), tokens(3, 6, seed=1)


@pytest.mark.parametrize("n_heads", [4, 8, 16])
def test_heads_cost_no_parameters(n_heads: int) -> None:
    dims = dataclasses.replace(TINY, n_heads=n_heads)
    count = [sum(p.numel() for p in build(Design(), dims=d).parameters()) for d in (TINY, dims)]
    assert count[0] == count[1]


SAME_IN_TRAINING = [design for design in pairwise_cover() if not design.norm_kind.value.breaks]


@pytest.mark.parametrize("design", SAME_IN_TRAINING, ids=name)
def test_train_and_eval_agree_without_dropout(design: Design) -> None:
    """Also where no row is as long as the padded batch, which PyTorch's own encoder cuts."""
    model, lengths = build(design), torch.tensor([3, 3, 2])
    padded = nn.functional.pad(SOURCE[:, :3], (0, 3))
    evaluated = model(padded, lengths, TARGET)
    assert model.encode(padded, lengths)[0].shape == (3, 6, TINY.d_model)
    assert torch.equal(model.train()(padded, lengths, TARGET), evaluated)


FUSABLE = [design for design in pairwise_cover() if design.mask.fusable]


@pytest.mark.parametrize("design", FUSABLE, ids=name)
@pytest.mark.parametrize("lengths", [LENGTHS, torch.tensor([7, 0, 3])], ids=["padded", "empty_row"])
def test_fused_attention_equals_the_explicit_path(
    design: Design, lengths: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome() -> list[Tensor]:
        model = build(design)
        states = model(SOURCE, lengths, TARGET)
        states.sin().sum().backward()
        return [states, *(p.grad for p in model.parameters() if p.grad is not None)]

    fused = outcome()
    monkeypatch.setattr(MaskMethod, "fusable", property(lambda self: False))
    monkeypatch.setattr(layers, "fused_attention", None)
    torch.testing.assert_close(outcome(), fused, atol=1e-8, rtol=1e-8)


class Torch(nn.Module):
    """The same model from PyTorch's own layers, with weights copied from ours."""

    def __init__(self, ours: EncoderDecoder, *, pre_norm: bool) -> None:
        super().__init__()
        arguments = (TINY.d_model, TINY.n_heads, TINY.d_ff, 0.0)
        options = {"batch_first": True, "norm_first": pre_norm, "dtype": torch.double}
        self.ours, self.pre_norm = ours, pre_norm
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(*arguments, **options) for _ in range(2)
        )
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(*arguments, **options) for _ in range(2)
        )
        for stack, layers_ in ((ours.encoder, self.encoder), (ours.decoder, self.decoder)):
            for block, layer in zip(stack.blocks, layers_, strict=True):
                self._copy(block, layer)

    def _copy(self, block: nn.Module, layer: nn.Module) -> None:
        pairs = [(block.self_attention, layer.self_attn)]
        norms = [block.around_self, block.around_feed_forward]
        if block.cross_attention is not None:
            pairs.append((block.cross_attention, layer.multihead_attn))
            norms.insert(1, block.around_cross)
        with torch.no_grad():
            for ours, theirs in pairs:
                maps = (ours.query, ours.key, ours.value)
                theirs.in_proj_weight.copy_(torch.cat([each.weight for each in maps]))
                theirs.in_proj_bias.copy_(torch.cat([each.bias for each in maps]))
                theirs.out_proj.load_state_dict(ours.output.state_dict())
        layer.linear1.load_state_dict(block.feed_forward.inner.state_dict())
        layer.linear2.load_state_dict(block.feed_forward.outer.state_dict())
        for index, wiring in enumerate(norms, start=1):
            getattr(layer, f"norm{index}").load_state_dict(wiring.norm.state_dict())

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        hidden = torch.arange(source.shape[1]) >= lengths[:, None]
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.double)

        def embedded(ids: Tensor) -> Tensor:
            table = sinusoids(torch.arange(ids.shape[1]), TINY.d_model)
            return nn.functional.embedding(ids, self.ours.output_weight) * 4 + table

        memory = embedded(source)
        for layer in self.encoder:
            memory = layer(memory, src_key_padding_mask=hidden)
        states = embedded(target)
        if self.pre_norm:
            memory = self.ours.encoder.final_norm(memory)
        for layer in self.decoder:
            states = layer(states, memory, tgt_mask=future, memory_key_padding_mask=hidden)
        return self.ours.decoder.final_norm(states) if self.pre_norm else states


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("level", [NormPosition.pre, NormPosition.post])
def test_the_baseline_is_the_transformer_of_pytorch(level: NormPosition, training: bool) -> None:
    ours = build(Design(norm_position=level))
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    theirs = Torch(ours, pre_norm=level is NormPosition.pre).train(training)
    ours.train(training)
    results = []
    for model in (ours, theirs):
        embedding = ours.output_weight
        states = model(SOURCE, LENGTHS, TARGET)
        gradient = torch.autograd.grad(states.sin().sum(), embedding)[0]
        results.append((states.detach(), gradient))
    torch.testing.assert_close(results[0], results[1], atol=1e-10, rtol=1e-8)
    first, second = ours.encoder.blocks[0].feed_forward.inner, theirs.encoder[0].linear1
    for module, layer in ((ours, first), (theirs, second)):
        ours.zero_grad(), theirs.zero_grad()
        module(SOURCE, LENGTHS, TARGET).sin().sum().backward()
        results.append((layer.weight.grad.clone(),))
    torch.testing.assert_close(results[2], results[3], atol=1e-10, rtol=1e-8)


def test_an_encoder_without_positions_is_blind_to_order() -> None:
    order = torch.randperm(7, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([7, 7, 7])
    for position, blind in ((Position.none, True), (Position.sinusoidal, False)):
        model = build(Design(position=position))
        states, shuffled = (model.encode(s, lengths)[0] for s in (SOURCE, SOURCE[:, order]))
        assert torch.allclose(states[:, order], shuffled) is blind

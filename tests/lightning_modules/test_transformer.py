"""Invariances of every design, parity with PyTorch, and the fused path against the explicit one."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from lightning_modules import layers
from lightning_modules.axes.attention import MaskMethod
from lightning_modules.axes.norms import NormPosition
from lightning_modules.axes.positions import Position
from lightning_modules.cache import Cache
from lightning_modules.design import Design
from lightning_modules.masks import AttentionMask
from lightning_modules.transformer import EncoderDecoder
from tests.lightning_modules.designs import ALL_DESIGNS, TINY, broken, build, name, tokens

SOURCE, LENGTHS, TARGET = tokens(3, 7), torch.tensor([7, 5, 3]), tokens(3, 6, seed=1)


def stepwise(model: EncoderDecoder) -> Tensor:
    memory, mask = model.encode(SOURCE, LENGTHS)
    cache = Cache(len(model.decoder.blocks))
    steps = [
        model.decode(TARGET[:, [i]], memory=memory, memory_mask=mask, cache=cache) for i in range(6)
    ]
    return torch.cat(steps, dim=1)


def causal(model: EncoderDecoder) -> bool:
    changed = TARGET.clone()
    changed[:, 4] = (changed[:, 4] - 3) % 30 + 4
    before, after = (model(SOURCE, LENGTHS, target) for target in (TARGET, changed))
    assert not torch.allclose(before[:, 4], after[:, 4])
    return torch.allclose(before[:, :4], after[:, :4], atol=1e-10)


def padding_invariant(model: EncoderDecoder) -> bool:
    other, longer = SOURCE.clone(), nn.functional.pad(SOURCE, (0, 3))
    other[2, 3:] = 9
    plain = model(SOURCE, LENGTHS, TARGET)
    return all(
        torch.allclose(plain, model(source, LENGTHS, TARGET), atol=1e-10)
        for source in (other, longer)
    )


@pytest.mark.parametrize("design", ALL_DESIGNS, ids=name)
def test_invariances_hold_or_are_caught_broken(design: Design) -> None:
    model = build(design)
    with torch.no_grad():
        full = model(SOURCE, LENGTHS, TARGET)
        held = {
            "causality": causal(model),
            "padding_invariance": padding_invariant(model),
            "cached_decoding": torch.allclose(full, stepwise(model), atol=1e-10),
        }
    assert {invariance for invariance, holds in held.items() if not holds} == broken(design)


@pytest.mark.parametrize("design", ALL_DESIGNS, ids=name)
def test_every_parameter_is_used_in_training(design: Design) -> None:
    model = build(
        design, dims=dataclasses.replace(TINY, dropout=0.1, attention_dropout=0.1)
    ).train()
    model.logits(model(SOURCE, LENGTHS, TARGET)).logsumexp(-1).sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@pytest.mark.parametrize("n_heads", [4, 8, 16])
def test_heads_cost_no_parameters(n_heads: int) -> None:
    dims = dataclasses.replace(TINY, n_heads=n_heads)
    count = [sum(p.numel() for p in build(Design(), dims=d).parameters()) for d in (TINY, dims)]
    assert count[0] == count[1]


@pytest.mark.parametrize("design", ALL_DESIGNS, ids=name)
def test_train_and_eval_agree_without_dropout(design: Design) -> None:
    """Also where no row is as long as the padded batch, which PyTorch's own encoder cuts."""
    model, lengths = build(design), torch.tensor([3, 3, 2])
    padded = nn.functional.pad(SOURCE[:, :3], (0, 3))
    evaluated = model(padded, lengths, TARGET)
    assert model.encode(padded, lengths)[0].shape == (3, 6, TINY.d_model)
    assert torch.equal(model.train()(padded, lengths, TARGET), evaluated)


FUSABLE = [design for design in ALL_DESIGNS if design.mask.fusable]


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
        if block.crosses:
            pairs.append((block.cross_attention, layer.multihead_attn))
            norms.insert(1, block.around_cross)
        with torch.no_grad():
            for ours, theirs in pairs:
                theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
                theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
                theirs.out_proj.load_state_dict(ours.output.state_dict())
        layer.linear1.load_state_dict(block.feed_forward.inner.state_dict())
        layer.linear2.load_state_dict(block.feed_forward.outer.state_dict())
        for index, wiring in enumerate(norms, start=1):
            getattr(layer, f"norm{index}").load_state_dict(wiring.norm.state_dict())

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        hidden = torch.arange(source.shape[1]) >= lengths[:, None]
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.double)

        def embedded(stack: nn.Module, ids: Tensor) -> Tensor:
            return stack.position.embed(self.ours.embed(ids), torch.arange(ids.shape[1]))

        memory = embedded(self.ours.encoder, source)
        for layer in self.encoder:
            memory = layer(memory, src_key_padding_mask=hidden)
        memory = self.ours.encoder.final_norm(memory)
        states = embedded(self.ours.decoder, target)
        for layer in self.decoder:
            states = layer(states, memory, tgt_mask=future, memory_key_padding_mask=hidden)
        return self.ours.decoder.final_norm(states)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("level", NormPosition)
def test_the_baseline_is_the_transformer_of_pytorch(level: NormPosition, training: bool) -> None:
    ours = build(Design(norm_position=level))
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    theirs = Torch(ours, pre_norm=level is NormPosition.pre).train(training)
    ours.train(training)
    results = []
    for model in (ours, theirs):
        embedding = ours.embedding.weight
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


@pytest.mark.parametrize("mask", MaskMethod)
def test_a_query_without_any_key(mask: MaskMethod) -> None:
    """-inf gives zeros and loses nothing else; -1e9 attends to padding; no level gives NaN."""
    attention = layers.Attention(Design(mask=mask), TINY).double()
    nn.init.zeros_(attention.output.bias)
    window = torch.ones(2, 1, 4, 4, dtype=torch.bool).tril().triu(-1)
    window = window & (torch.arange(4) < torch.tensor([4, 2])[:, None])[:, None, None, :]
    x = torch.randn(2, 4, 16, dtype=torch.double, requires_grad=True)
    output = attention(x, mask=AttentionMask(keep=window))
    output.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in attention.parameters())
    empty = output[1, 3].abs().max()
    assert (empty > 0) if mask is MaskMethod.minus_1e9 else (empty == 0)


def test_a_plain_softmax_over_minus_infinity_is_not_a_number() -> None:
    assert torch.full((4,), -torch.inf).softmax(-1).isnan().all()


def test_one_query_against_cached_keys_sees_them_all() -> None:
    assert AttentionMask(causal=True).allowed(1, 5, torch.device("cpu")) is None
    two = AttentionMask(causal=True).allowed(2, 5, torch.device("cpu"))
    assert two is not None
    assert two[0, 0].tolist() == [[True] * 4 + [False], [True] * 5]


def test_masks_have_one_type_one_polarity_and_one_shape() -> None:
    with pytest.raises(TypeError, match="True = may be attended to"):
        AttentionMask(keep=torch.zeros(1, 1, 2, 2))
    with pytest.raises(ValueError, match=r"\(batch, heads, query, key\)"):
        AttentionMask(keep=torch.ones(2, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="2 x 3 doesn't fit 4 queries x 4 keys"):
        AttentionMask(keep=torch.ones(1, 1, 2, 3, dtype=torch.bool)).allowed(
            4, 4, torch.device("cpu")
        )
    lengths = AttentionMask.from_lengths(torch.tensor([2, 3]), 3)
    assert lengths.keep is not None
    assert lengths.keep[:, 0, 0].tolist() == [[True, True, False], [True, True, True]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mask", MaskMethod)
def test_masks_by_precision(mask: MaskMethod, dtype: torch.dtype) -> None:
    scores = torch.randn(1, 1, 3, 3).to(dtype)
    allowed = torch.ones(1, 1, 3, 3, dtype=torch.bool).tril()
    if mask is MaskMethod.minus_1e9 and dtype is torch.float16:
        with pytest.raises(RuntimeError, match="overflow"):
            mask(scores, allowed)
        return
    weights = mask(scores, allowed)
    assert weights.dtype is dtype
    assert weights.isfinite().all()
    assert (weights[~allowed] == 0).all()

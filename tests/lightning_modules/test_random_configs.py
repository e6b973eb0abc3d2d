"""A thousand random configs: each one trains a step, or is refused with one line."""

import math
from functools import partial

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightning_modules.design import AXES, Design, Dims, violated
from lightning_modules.optimization import Optim, Precision
from lightning_modules.transformer import EncoderDecoder
from tests.lightning_modules.designs import VOCABULARY, tokens

SOURCE, LENGTHS, TARGET = tokens(2, 5), torch.tensor([5, 3]), tokens(2, 4, seed=1)

designs = st.builds(
    Design, **{axis: st.sampled_from(list(levels)) for axis, levels in AXES.items()}
)
dims = st.builds(
    Dims,
    d_model=st.sampled_from([0, 6, 8, 12]),
    n_heads=st.sampled_from([0, 1, 2, 3, 4]),
    d_head=st.sampled_from([-1, 0, 0, 0, 3, 4]),
    n_key_value_heads=st.sampled_from([1, 2, 3]),
    d_ff=st.sampled_from([1, 8]),
    n_encoder_layers=st.sampled_from([0, 1]),
    n_decoder_layers=st.sampled_from([0, 1]),
    dropout=st.sampled_from([0.0, 0.1, 1.0]),
    attention_dropout=st.sampled_from([0.0, 0.1]),
    max_length=st.sampled_from([4, 16]),
    rope_base=st.sampled_from([0.0, 100.0, 10000.0]),
    init_gain=st.sampled_from([0.5, 8.0]),
    embedding_rank=st.sampled_from([0, 0, 2]),
)
optims = st.builds(Optim, precision=st.sampled_from(list(Precision)), lr=st.just(0.01))


@settings(
    max_examples=1000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(design=designs, dims=dims, optim=optims)
def test_a_random_config_trains_or_is_refused(design: Design, dims: Dims, optim: Optim) -> None:
    if sentences := violated(design, dims, optim):
        assert all("\n" not in sentence and "{" not in sentence for sentence in sentences)
        return
    build = partial(EncoderDecoder, VOCABULARY, design=design, dims=dims)
    model = build().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    try:
        states = model(SOURCE, LENGTHS, TARGET, torch.tensor([4, 2]))
    except ValueError as refusal:
        assert "not defined beyond 4 tokens" in str(refusal)  # noqa: PT017 (one of two outcomes)
        return
    loss = model.logits(states).logsumexp(-1).mean()
    loss.backward()
    optimizer.step()
    assert math.isfinite(loss.item())

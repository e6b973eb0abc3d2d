"""Writing rows: with and without the cache, alone and beside others."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from data.batches import BOS_ID, EOS_ID, PAD_ID
from lightning_modules.cache import Cache
from lightning_modules.continuation import DecoderContinuation, EncoderDecoderContinuation
from lightning_modules.decoding import greedy_search
from lightning_modules.design import Design
from lightning_modules.masks import AttentionMask
from lightning_modules.sampling import Sampling, generate, repetition_rate
from lightning_modules.transformer import Stack
from tests.lightning_modules.designs import TINY, VOCABULARY, build, tokens

DRAWING = Sampling(temperature=1.3, top_k=9, top_p=0.9, no_repeat_ngram=2)
LENGTHS = torch.tensor([7, 5, 3])


class Decoder(nn.Module):
    """A decoder without an encoder, in double precision, with weights large enough to end rows."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.embedding = nn.Embedding(VOCABULARY, TINY.d_model)
        self.stack = Stack(Design(), TINY, n_layers=2, causal=True)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.4)
        self.double().eval()

    def forward(self, ids: Tensor, cache: Cache | None = None) -> Tensor:
        states = self.stack(self.embedding(ids), mask=AttentionMask(causal=True), cache=cache)
        return states @ self.embedding.weight.T

    def continuation(self, *, cached: bool) -> DecoderContinuation:
        return DecoderContinuation(self, n_layers=2, cached=cached)


def encoder_decoder(*, cached: bool) -> EncoderDecoderContinuation:
    built = build(Design(), seed=3)
    for parameter in built.parameters():
        nn.init.normal_(parameter, std=0.4)
    return EncoderDecoderContinuation(built, tokens(3, 7), LENGTHS, cached=cached)


def written(make: Callable[..., object], prompts: Tensor, *, cached: bool, **options: object):
    generator = torch.Generator().manual_seed(7)
    return generate(make(cached=cached), prompts, generator=generator, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(no_repeat_ngram=2), DRAWING])
def test_the_cache_changes_nothing(sampling: Sampling) -> None:
    starts = torch.full((3, 1), BOS_ID)
    options = {"sampling": sampling, "longest": 12}
    found = [written(encoder_decoder, starts, cached=cached, **options) for cached in (True, False)]
    assert found[0] == found[1]
    assert max(map(len, found[0])) > 3
    prompts, lengths = tokens(4, 5), torch.tensor([2, 5, 3, 5])
    options["prompt_lengths"] = lengths
    found = [
        written(Decoder().continuation, prompts, cached=cached, **options)
        for cached in (True, False)
    ]
    assert found[0] == found[1]


def test_prompts_of_different_lengths_go_on_as_if_alone() -> None:
    """Padding behind a prompt is never read."""
    prompts, lengths = tokens(4, 5, seed=2), torch.tensor([2, 5, 1, 4])
    decoder = Decoder()
    options = {"cached": True, "longest": 9}
    free = written(decoder.continuation, prompts, prompt_lengths=lengths, end=None, **options)
    options["end"] = free[0][4]  # a token that some rows write early, and others late or never
    together = written(decoder.continuation, prompts, prompt_lengths=lengths, **options)
    alone = [
        written(decoder.continuation, prompts[[row], :length], **options)[0]
        for row, length in enumerate(lengths.tolist())
    ]
    assert together == alone
    assert len({len(row) for row in together}) > 1


def test_greedy_is_a_plain_argmax_loop() -> None:
    decoder, prompt = Decoder(), tokens(1, 4, seed=5)
    ids: list[int] = []
    with torch.no_grad():
        for _ in range(8):
            logits = decoder(torch.cat([prompt, torch.tensor([ids], dtype=torch.long)], dim=1))[
                0, -1
            ]
            logits[[PAD_ID, BOS_ID]] = -math.inf
            ids.append(int(logits.argmax()))
    found = written(decoder.continuation, prompt, cached=True, longest=8, end=None)
    assert found == [ids]


def test_greedy_search_is_generation_without_drawing() -> None:
    built = build(Design(), seed=3)
    continuation = EncoderDecoderContinuation(built, tokens(3, 7), LENGTHS)
    found = generate(continuation, torch.full((3, 1), BOS_ID), longest=24)
    own = [row[: 2 * length + 10] for row, length in zip(found, LENGTHS.tolist(), strict=True)]
    assert greedy_search(built, tokens(3, 7), LENGTHS) == own


class Scripted:
    """Always writes the next number; row `r` ends after it has written `8 + r`."""

    def __init__(self, n_rows: int) -> None:
        self.rows = torch.arange(n_rows)
        self.sizes: list[int] = []

    def advance(self, read: Tensor) -> Tensor:
        self.sizes.append(len(read))
        last = read[:, -1]
        following = torch.where(last == 8 + self.rows, EOS_ID, last + 1)
        return nn.functional.one_hot(following, 40).double()

    def select(self, rows: Tensor) -> None:
        self.rows = self.rows[rows]


def test_finished_rows_leave_the_batch() -> None:
    script = Scripted(3)
    assert generate(script, torch.full((3, 1), 5), longest=30) == [
        [6, 7, 8],
        [6, 7, 8, 9],
        [6, 7, 8, 9, 10],
    ]
    assert script.sizes == [3, 3, 3, 3, 2, 1]


def test_every_row_writes_at_most_the_longest() -> None:
    prompts = torch.tensor([[5, 0, 0], [3, 4, 5]])
    found = generate(Scripted(2), prompts, prompt_lengths=torch.tensor([1, 3]), longest=2)
    assert found == [[6, 7], [6, 7]]
    assert generate(Scripted(2), prompts, longest=0) == [[], []]
    endless = generate(Scripted(1), prompts[:1, :1], longest=5, end=None)
    assert endless == [[6, 7, 8, EOS_ID, EOS_ID + 1]]


def test_padding_and_start_are_never_written() -> None:
    class Stubborn(Scripted):
        def advance(self, read: Tensor) -> Tensor:
            values = torch.zeros(len(read), 8)
            values[:, [PAD_ID, BOS_ID]] = 50.0
            values[:, 6] = 1.0
            return values

    assert generate(Stubborn(1), torch.tensor([[BOS_ID]]), longest=2) == [[6, 6]]
    draws = replace(DRAWING, top_k=0, top_p=1.0, no_repeat_ngram=0)
    ids = generate(Stubborn(1), torch.tensor([[BOS_ID]]), longest=200, sampling=draws, end=None)[0]
    assert set(ids) == {2, 3, 4, 5, 6, 7}


def test_a_seed_repeats_its_draws() -> None:
    starts = torch.full((3, 1), BOS_ID)
    wild = {"sampling": Sampling(temperature=3.0), "longest": 10, "cached": True}
    first = written(encoder_decoder, starts, **wild)
    assert written(encoder_decoder, starts, **wild) == first
    other = torch.Generator().manual_seed(8)
    assert (
        generate(
            encoder_decoder(cached=True),
            starts,
            longest=10,
            sampling=Sampling(temperature=3.0),
            generator=other,
        )
        != first
    )


@given(st.integers(1, 3))
def test_blocked_ngrams_never_come_twice(n: int) -> None:
    starts = torch.full((3, 1), BOS_ID)
    rules = Sampling(no_repeat_ngram=n)
    for ids in written(encoder_decoder, starts, cached=True, sampling=rules, longest=24):
        assert repetition_rate(ids, n=n) == 0

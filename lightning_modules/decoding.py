"""Greedy and beam search over the key/value cache."""

import math

import torch
from torch import Tensor

from data.batches import BOS_ID, EOS_ID
from lightning_modules.cache import Cache
from lightning_modules.continuation import EncoderDecoderContinuation, select_rows
from lightning_modules.sampling import NEVER_GENERATED, generate
from lightning_modules.transformer import EncoderDecoder


def length_limits(source_lengths: Tensor, longest: int | None) -> list[int]:
    """Tokens after which a row stops: twice its source and 10 more, or `longest`.

    Its own source, so that a translation doesn't depend on its neighbours in the batch.
    """
    limits = 2 * source_lengths + 10
    return (limits if longest is None else limits.clamp(max=longest)).tolist()


@torch.inference_mode()
def greedy_search(
    model: EncoderDecoder,
    source: Tensor,
    source_lengths: Tensor,
    *,
    longest: int | None = None,
    cached: bool = True,
) -> list[list[int]]:
    """The most probable token at each step; finished rows leave the batch.

    Args:
        model: in evaluation mode.
        source: `(batch, source_length)`, right-padded.
        source_lengths: `(batch,)`.
        longest: tokens to generate at most, besides the rule of `length_limits`.
        cached: False reads every row from its beginning at each step.

    Returns:
        Token ids of each row, without special tokens.
    """
    limits = length_limits(source_lengths, longest)
    rows = generate(
        EncoderDecoderContinuation(model, source, source_lengths, cached=cached),
        torch.full_like(source[:, :1], BOS_ID),
        longest=max(limits),
    )
    return [row[:limit] for row, limit in zip(rows, limits, strict=True)]


@torch.inference_mode()
def beam_search(
    model: EncoderDecoder,
    source: Tensor,
    source_lengths: Tensor,
    *,
    beam_size: int,
    length_penalty: float = 1.0,
    longest: int | None = None,
) -> list[list[int]]:
    """Beam search over the whole batch at once; rows whose best is settled leave the batch.

    A hypothesis scores `log p / length ** length_penalty`, its end counted in the length (the
    rule of fairseq). A row is settled when `beam_size` hypotheses have ended and none that is
    still open could, at its present length, beat the best of them; at its limit, with its best open
    hypothesis where none has ended.

    Args and returns as in `greedy_search`; always cached.
    """
    limits = length_limits(source_lengths, longest)
    search = _Beams(limits, beam_size, length_penalty, source.device)
    memory, memory_mask = model.encode(source, source_lengths)
    repeat = torch.arange(len(source), device=source.device).repeat_interleave(beam_size)
    memory, memory_mask = memory[repeat], select_rows(memory_mask, repeat)
    cache = Cache(len(model.decoder.blocks))
    while len(search.rows):
        token = search.tokens[:, -1:]
        states = model.decode(token, memory=memory, memory_mask=memory_mask, cache=cache)
        chosen = search.advance(model.logits(states[:, -1]).log_softmax(-1))
        if len(chosen) == len(memory):
            cache.reorder(chosen)
        else:
            cache.select(chosen)
            memory, memory_mask = memory[chosen], select_rows(memory_mask, chosen)
    return [max(ended)[1] for ended in search.ended]


class _Beams:
    """The open hypotheses of each row `(rows * beam, length)`, and the ended ones."""

    def __init__(
        self, limits: list[int], beam_size: int, length_penalty: float, device: torch.device
    ) -> None:
        n_rows = len(limits)
        self.limits, self.beam_size, self.length_penalty = limits, beam_size, length_penalty
        self.rows = torch.arange(n_rows, device=device)
        self.tokens = torch.full((n_rows * beam_size, 1), BOS_ID, device=device)
        self.scores = torch.full((n_rows, beam_size), -math.inf, device=device)
        self.scores[:, 0] = 0.0
        self.ended: list[list[tuple[float, list[int]]]] = [[] for _ in range(n_rows)]

    def advance(self, log_probabilities: Tensor) -> Tensor:
        """Take one step, given `(rows * beam, vocabulary)`.

        Returns:
            The indices of the hypotheses that go on, into those of the step before.
        """
        vocabulary = log_probabilities.shape[-1]
        log_probabilities[:, NEVER_GENERATED] = -math.inf
        totals = self.scores[..., None] + log_probabilities.view(len(self.rows), self.beam_size, -1)
        # Twice the beam: at most beam_size of them can end, so enough remain open.
        scores, flat = totals.flatten(1).topk(2 * self.beam_size)
        beams, tokens = flat // vocabulary, flat % vocabulary
        self._collect(scores, beams, tokens)
        scores, order = scores.masked_fill(tokens == EOS_ID, -math.inf).topk(self.beam_size)
        beams, tokens = beams.gather(1, order), tokens.gather(1, order)
        starts = torch.arange(len(self.rows), device=beams.device)[:, None] * self.beam_size
        previous = (starts + beams).flatten()
        self.tokens = torch.cat([self.tokens[previous], tokens.flatten()[:, None]], dim=1)
        self.scores = scores
        return previous[self._leave()]

    def _leave(self) -> Tensor:
        """Let go of the rows that are settled; the indices of the hypotheses that stay."""
        length = self.tokens.shape[1] - 1
        best_open = (self.scores[:, 0] / length**self.length_penalty).tolist()
        staying = []
        for index, row in enumerate(self.rows.tolist()):
            ended, at_limit = self.ended[row], length >= self.limits[row]
            if at_limit and not ended:
                ended.append((-math.inf, self.tokens[index * self.beam_size, 1:].tolist()))
            if not at_limit and (len(ended) < self.beam_size or max(ended)[0] < best_open[index]):
                staying.append(index)
        rows = torch.tensor(staying, device=self.rows.device, dtype=torch.long)
        places = torch.arange(self.beam_size, device=rows.device)
        hypotheses = (rows[:, None] * self.beam_size + places).flatten()
        self.rows, self.scores = self.rows[rows], self.scores[rows]
        self.tokens = self.tokens[hypotheses]
        return hypotheses

    def _collect(self, scores: Tensor, beams: Tensor, tokens: Tensor) -> None:
        length = self.tokens.shape[1]
        ends = (tokens[:, : self.beam_size] == EOS_ID) & (scores[:, : self.beam_size] > -math.inf)
        for index, rank in ends.nonzero().tolist():
            ids = self.tokens[index * self.beam_size + int(beams[index, rank]), 1:].tolist()
            score = float(scores[index, rank]) / length**self.length_penalty
            self.ended[int(self.rows[index])].append((score, ids))

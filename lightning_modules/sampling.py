"""Choosing the next token, and writing whole rows with it."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from data.batches import BOS_ID, EOS_ID, PAD_ID
from lightning_modules.continuation import Continuation

NEVER_GENERATED = [PAD_ID, BOS_ID]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen; by default the most probable one.

    N-grams are blocked first, then the temperature divides the logits, then top-k and then top-p
    narrow the choice.

    Attributes:
        temperature: logits are divided by it before a token is drawn; 0 takes the most probable.
        top_k: the most probable tokens to draw from (Fan et al. 2018, arXiv:1805.04833); 0 for all.
        top_p: draw from the fewest most probable tokens that together reach this probability, the
            nucleus (Holtzman et al. 2020, arXiv:1904.09751, equation 2); 1 for all.
        no_repeat_ngram: no n-gram of this size is written twice in a row of the batch
            (Paulus et al. 2018, arXiv:1705.04304, section 2.5, with 3); 0 for no such rule.

    Raises:
        ValueError: A number out of range, or `top_k` or `top_p` where nothing is drawn.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    no_repeat_ngram: int = 0

    def __post_init__(self) -> None:
        for name in ("temperature", "top_k", "no_repeat_ngram"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"sampling.{name}={value} must be a number of at least 0")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"sampling.top_p={self.top_p} must be above 0 and at most 1")
        if self.temperature == 0 and (self.top_k, self.top_p) != (0, 1.0):
            raise ValueError(
                f"sampling.temperature=0 takes the most probable token, so sampling.top_k="
                f"{self.top_k} and sampling.top_p={self.top_p} would do nothing; give a temperature"
                " above 0, or top_k=0 and top_p=1"
            )


GREEDY = Sampling()


def choose(
    logits: Tensor, *, history: Tensor, sampling: Sampling, generator: Generator | None = None
) -> Tensor:
    """The next token of each row, `(rows,)`.

    Args:
        logits: `(rows, vocabulary)`; not changed. Tokens at -inf are never chosen.
        history: tokens written so far, `(rows, length)`, padded on the left with `PAD_ID`.
        sampling: the rules.
        generator: draws; torch's default one unless given.
    """
    if sampling.no_repeat_ngram:
        logits = without_repeats(logits, history=history, n=sampling.no_repeat_ngram)
    if sampling.temperature == 0:
        return logits.argmax(-1)
    logits = logits / sampling.temperature
    if sampling.top_k:
        logits = keep_top_k(logits, k=sampling.top_k)
    if sampling.top_p < 1:
        logits = keep_top_p(logits, p=sampling.top_p)
    return torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(-1)


def keep_top_k(logits: Tensor, *, k: int) -> Tensor:
    """All but the `k` largest of each row at -inf; of equal ones, those that come first."""
    order = logits.argsort(dim=-1, descending=True, stable=True)[:, k:]
    return logits.scatter(-1, order, -math.inf)


def keep_top_p(logits: Tensor, *, p: float) -> Tensor:
    """All but the nucleus of each row at -inf; of equal ones, those that come first."""
    order = logits.argsort(dim=-1, descending=True, stable=True)
    probabilities = logits.softmax(-1).gather(-1, order)
    enough = probabilities.cumsum(-1) >= p
    # A token is left out when those before it are enough without it.
    dropped = torch.cat([torch.zeros_like(enough[:, :1]), enough[:, :-1]], dim=1)
    return logits.masked_fill(torch.zeros_like(dropped).scatter(-1, order, dropped), -math.inf)


def without_repeats(logits: Tensor, *, history: Tensor, n: int) -> Tensor:
    """The tokens at -inf that would complete an n-gram of the row's history once more."""
    if history.shape[1] < n:
        return logits
    ngrams = history.unfold(1, n, 1)
    begun = history[:, history.shape[1] - n + 1 :]
    repeated = (ngrams[..., :-1] == begun[:, None]).all(-1)
    counts = torch.zeros_like(logits).scatter_add_(-1, ngrams[..., -1], repeated.to(logits.dtype))
    return logits.masked_fill(counts > 0, -math.inf)


@torch.inference_mode()
def generate(
    continuation: Continuation,
    prompts: Tensor,
    *,
    longest: int,
    prompt_lengths: Tensor | None = None,
    sampling: Sampling = GREEDY,
    generator: Generator | None = None,
    end: int | None = EOS_ID,
) -> list[list[int]]:
    """Go on with the prompts; finished rows leave the batch.

    Rows whose prompt is longer than another's read it one token at a time beside it, so that no
    padding ever enters the cache.

    Args:
        continuation: has read nothing yet.
        prompts: at least `<s>`, `(batch, length)`, padded on the right.
        longest: tokens to write at most in each row, its end not counted.
        prompt_lengths: real tokens of each prompt, `(batch,)`; all unless given.
        sampling: how the next token is chosen.
        generator: draws the tokens.
        end: the token that ends a row; None where only `longest` does.

    Returns:
        Token ids written in each row, without prompt and end.
    """
    rows = torch.arange(len(prompts), device=prompts.device)
    full = torch.full_like(rows, prompts.shape[1])
    lengths = full if prompt_lengths is None else prompt_lengths
    read = int(lengths.min())
    tokens, history = prompts[:, :read], prompts[:, :0]
    output: list[list[int]] = [[] for _ in range(len(prompts))]
    while len(rows) and longest > 0:
        logits = continuation.advance(tokens)
        logits[:, NEVER_GENERATED] = -math.inf
        chosen = choose(logits, history=history, sampling=sampling, generator=generator)
        writing = lengths[rows] <= read
        ends = writing & (chosen == end) if end is not None else torch.zeros_like(writing)
        written = (writing & ~ends).nonzero().flatten()
        for row, token in zip(rows[written].tolist(), chosen[written].tolist(), strict=True):
            output[row].append(token)
        read += 1
        alive = (~ends & (read - lengths[rows] < longest)).nonzero().flatten()
        given = prompts[rows, min(read, prompts.shape[1]) - 1]
        tokens = torch.where(writing, chosen, given)[:, None]
        history = torch.cat([history, chosen.where(writing, PAD_ID)[:, None]], dim=1)
        if len(alive) < len(rows):
            rows, tokens, history = rows[alive], tokens[alive], history[alive]
            if len(rows):
                continuation.select(alive)
    return output


def repetition_rate(ids: list[int], *, n: int = 4) -> float:
    """Share of a row's n-grams that stand earlier in it, 0 for a row shorter than `n`.

    Welleck et al. 2020, arXiv:1908.04319, section 6.1 (seq-rep-n).
    """
    ngrams = _ngrams(ids, n)
    return 1 - len(set(ngrams)) / len(ngrams) if ngrams else 0.0


def distinct_n(rows: list[list[int]], *, n: int) -> float:
    """Different n-grams of all rows over the number of their tokens, 0 for no tokens.

    Li et al. 2016, arXiv:1510.03055, section 5.2 (distinct-1 and distinct-2).
    """
    n_tokens = sum(map(len, rows))
    return len({ngram for row in rows for ngram in _ngrams(row, n)}) / n_tokens if n_tokens else 0.0


def _ngrams(ids: list[int], n: int) -> list[tuple[int, ...]]:
    return list(zip(*(ids[start:] for start in range(n)), strict=False))

"""BLEU and chrF of whole sentences, each with the signature that says how it was computed.

The one path: decoded text in, as a reader would see it. What a metric wants changed (case, tokens)
is changed here, for hypotheses and references alike, and shows in the signature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

SUBWORD_MARK = "\u2581"  # sentencepiece's space: text that holds it was never decoded


@dataclass(frozen=True, kw_only=True)
class TextScore:
    """One score.

    Attributes:
        metric: `bleu` (cased, detokenised), `bleu_lowercase_tokenized` or `chrf`.
        value: 0 to 100.
        signature: sacreBLEU's, which makes the number comparable (Post 2018,
            https://arxiv.org/abs/1804.08771).
    """

    metric: str
    value: float
    signature: str


def score(
    hypotheses: Sequence[str], references: Sequence[str], *, language: str
) -> list[TextScore]:
    """Score a system's output.

    `bleu_lowercase_tokenized` follows the Multi30k papers: lower case, normalised punctuation,
    Moses tokens. Its numbers may be compared with theirs, not with `bleu`.

    Args:
        hypotheses: decoded sentences.
        references: one for each, untouched.
        language: of both, such as `de`; Moses treats apostrophes and abbreviations by it.

    Raises:
        ValueError: Different counts, no sentence, or text still in subwords.
    """
    from sacrebleu.metrics import BLEU, CHRF

    check_sentences(hypotheses, references)
    tokenized, says = tokenized_lines(hypotheses, language)
    return [
        _score("bleu", BLEU(), hypotheses, references),
        _score(
            "bleu_lowercase_tokenized",
            BLEU(tokenize="none", force=True),
            tokenized,
            tokenized_lines(references, language)[0],
            says=says,
        ),
        _score("chrf", CHRF(), hypotheses, references),
    ]


def tokenized_lines(lines: Sequence[str], language: str) -> tuple[list[str], dict[str, str]]:
    """Sentences in lower-case Moses tokens; what of a signature that changes, and into what."""
    moses, version = moses_tokenizer(language)
    says = {"case:mixed": "case:lc", "tok:none": f"tok:sacremoses-{version}"}
    return [moses(line) for line in lines], says


def moses_tokenizer(language: str) -> tuple[Callable[[str], str], str]:
    """What makes lower-case Moses tokens, joined by spaces, of a text; and sacremoses' version."""
    import sacremoses

    normalizer = sacremoses.MosesPunctNormalizer(lang=language)
    tokenizer = sacremoses.MosesTokenizer(lang=language)

    def tokenize(text: str) -> str:
        return tokenizer.tokenize(normalizer.normalize(text.lower()), return_str=True, escape=False)

    return tokenize, sacremoses.__version__


def _score(
    name: str,
    metric: Metric,
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    says: dict[str, str] | None = None,
) -> TextScore:
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    signature = metric.get_signature().format()
    for part, truth in (says or {}).items():
        signature = signature.replace(part, truth)
    return TextScore(metric=name, value=value, signature=signature)


def check_sentences(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse what can't be scored.

    Raises:
        ValueError: Different counts, no sentence, or text still in subwords.
    """
    if len(hypotheses) != len(references) or not references:
        raise ValueError(
            f"{len(hypotheses)} hypotheses for {len(references)} references: one each, at least one"
        )
    for number, line in enumerate(hypotheses, start=1):
        if SUBWORD_MARK in line:
            raise ValueError(
                f"hypothesis {number} is still in subwords ({line[:40]!r}): score decoded text"
            )

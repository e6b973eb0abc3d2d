"""Paired bootstrap over the sentences of a test set, by sacreBLEU itself.

Koehn 2004, "Statistical Significance Tests for Machine Translation Evaluation". It says whether
two outputs differ on sentences like these; how far seeds scatter it can't know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from data.text_scores import check_sentences, tokenized_lines

METRICS = ("bleu", "bleu_lowercase_tokenized", "chrf")


@dataclass(frozen=True, kw_only=True)
class Resampled:
    """An output under resampling.

    Attributes:
        score: of all sentences, 0 to 100.
        mean: over the resamples.
        half_width: of the 95% interval of the score over resamples.
        p: two-sided, of the difference from the baseline's output; 1 where no resample told them
            apart, None of that output itself.
        signature: sacreBLEU's, with resamples and seed.
    """

    score: float
    mean: float
    half_width: float
    p: float | None
    signature: str


def paired_bootstrap(
    baseline: Sequence[str],
    outputs: Mapping[str, Sequence[str]],
    references: Sequence[str],
    *,
    metric: str,
    language: str,
) -> tuple[Resampled, dict[str, Resampled]]:
    """Compare outputs with that of a baseline on the same resamples: its own, then the others'.

    Args:
        baseline: decoded sentences.
        outputs: the same of others, by name.
        references: one for each sentence, untouched.
        metric: one of `METRICS`, as in `data.text_scores`.
        language: of all sentences, such as `de`.

    Raises:
        ValueError: another metric, different counts, or text still in subwords.
    """
    from sacrebleu.metrics import BLEU, CHRF
    from sacrebleu.significance import PairedTest

    if metric not in METRICS:
        raise ValueError(f"no bootstrap over sentences of {metric}; legal: {', '.join(METRICS)}")
    named = [baseline, *outputs.values()]
    for lines in named:
        check_sentences(lines, references)
    says: dict[str, str] = {}
    computed = CHRF() if metric == "chrf" else BLEU()
    if metric == "bleu_lowercase_tokenized":
        computed = BLEU(tokenize="none", force=True)
        named = [tokenized_lines(lines, language)[0] for lines in named]
        references, says = tokenized_lines(references, language)
    systems: Any = [(str(place), list(lines)) for place, lines in enumerate(named)]
    test = PairedTest(systems, {metric: computed}, [list(references)], test_type="bs")
    signatures, results = test()
    ((name, written),) = signatures.items()  # named by sacreBLEU
    signature = written.format()
    for part, truth in says.items():
        signature = signature.replace(part, truth)
    found: list[Any] = results[name]
    resampled = [
        Resampled(
            score=one.score,
            mean=one.mean,
            half_width=one.ci,
            p=1.0 if place and _never_differs(one, found[0]) else one.p_value,
            signature=signature,
        )
        for place, one in enumerate(found)
    ]
    return resampled[0], dict(zip(outputs, resampled[1:], strict=True))


def _never_differs(one: Any, baseline: Any) -> bool:
    """Whether no resample told the two apart, where sacreBLEU's p is its smallest."""
    return one.score == baseline.score and one.mean == baseline.mean and one.ci == baseline.ci

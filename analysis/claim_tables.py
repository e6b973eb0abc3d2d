"""The register of claims with verdicts, as tables of words."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis import statistics
from analysis.row_words import p_value
from analysis.text_tables import TextTable
from analysis.verdicts import Answer, ClaimVerdict, Question, overall


@dataclass(frozen=True, kw_only=True)
class Part:
    """One thing that bears on a claim: a check, or a comparison in a study.

    Attributes:
        what: what was looked at.
        verdict: of this part alone.
        found: what was measured, in words with figures.
        command: the command that makes it again.
        question: the comparison; None for a check.
        answer: what the runs say of it; None for a check, and where nothing could be asked.
    """

    what: str
    verdict: ClaimVerdict
    found: str
    command: str
    question: Question | None = None
    answer: Answer | None = None

    @property
    def n(self) -> str:
        """Seeds with a number of those planned; empty for a check, which has no seeds."""
        return f"{self.answer.effect.n} of {self.answer.planned}" if self.answer else ""

    @property
    def effect(self) -> str:
        """The difference with its interval; empty where there is none."""
        return effect_text(self.answer) if self.answer and self.answer.effect.n else ""


@dataclass(frozen=True, kw_only=True)
class ClaimRow:
    """A claim with what was found of it; the words are those of the register."""

    id: str
    statement: str
    source: str
    kind: str
    contradiction: str
    prediction: str
    expects: str
    needs: str
    parts: tuple[Part, ...]

    @property
    def verdict(self) -> ClaimVerdict:
        """Of all parts that were run."""
        return overall([part.verdict for part in self.parts])

    @property
    def run(self) -> int:
        """How many parts have been run."""
        return sum(part.verdict is not ClaimVerdict.not_run for part in self.parts)

    @property
    def deciding(self) -> Part | None:
        """The first part with the verdict of the claim."""
        return next((part for part in self.parts if part.verdict is self.verdict), None)


def effect_text(answer: Answer) -> str:
    """The difference with its interval, to two significant digits of the interval's width."""
    effect = answer.effect
    width = effect.high - effect.low
    known = width > 0  # neither one seed alone nor seeds without a spread
    digits = max(0, min(6, 1 - math.floor(math.log10(width)))) if known else 3
    mean, low, high = (f"{end:+z.{digits}f}" for end in (effect.mean, effect.low, effect.high))
    unit = " (rate of divergence)" if answer.diverging else ""
    return f"{mean}{unit}" if effect.n == 1 else f"{mean} [{low}, {high}]{unit}"


def found_text(question: Question, answer: Answer) -> str:
    """What a comparison found, and what its seeds could have shown."""
    if not answer.effect.n:
        return f"{len(answer.missing)} runs missing" if answer.missing else "no pair of numbers"
    words = [f"Δ {effect_text(answer)}", f"n = {answer.effect.n}", f"p {p_value(answer.p)}"]
    if answer.diverged:
        words.append(f"{answer.diverged} diverged")
    if answer.missing:
        words.append(f"{len(answer.missing)} runs missing")
    if answer.verdict is ClaimVerdict.not_distinguishable:
        fewest = statistics.fewest_seeds(question.alpha)
        too_few = f"too few seeds for any verdict, which takes {fewest}"
        none = math.isinf(answer.detectable)
        words.append(too_few if none else f"could have shown {answer.detectable:.2g}")
        if answer.seeds_needed:
            words.append(f"{answer.smallest:g} takes {answer.seeds_needed} seeds")
    return ", ".join(words)


def summary(rows: Sequence[ClaimRow]) -> str:
    """How many claims have each verdict."""
    counts = Counter(row.verdict for row in rows)
    found = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in ClaimVerdict)
    return f"{len(rows)} claims: {found}"


def claims_parts(rows: Sequence[ClaimRow]) -> Iterator[str | TextTable]:
    """The list of claims, contradictions between documents first, and the counts."""
    header = ("id", "verdict", "expected", "statement", "found", "n", "effect [95%]", "command")
    words = [name for name in header if name not in ("n", "effect [95%]")]
    disputed = [row for row in rows if row.contradiction]
    others = [row for row in rows if not row.contradiction]
    for title, members in (("Documents contradict each other", disputed), ("Claims", others)):
        if members:
            lines = [_line(row) for row in members]
            yield TextTable(title=title, header=header, rows=lines, words=words)
    yield summary(rows)


def _line(row: ClaimRow) -> list[str]:
    part = row.deciding
    partly = f" ({row.run} of {len(row.parts)} parts run)" if len(row.parts) > row.run > 0 else ""
    statement = row.statement + (f" Against it: {row.contradiction}" if row.contradiction else "")
    needs = f"needs {row.needs}" if row.needs and not row.run else ""
    found = needs or (part.found if part else "")
    command = part.command if part else ""
    first = [row.id, row.verdict.value + partly, row.expects, statement, _short(found)]
    return [*first, part.n if part else "", part.effect if part else "", command]


def _short(text: str, *, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def claim_parts(row: ClaimRow) -> Iterator[str | TextTable]:
    """One claim in full."""
    yield f"{row.verdict.value}, {row.run} of {len(row.parts)} parts run ({row.kind})"
    yield f"Claim: {row.statement}"
    yield f"Source: {row.source}"
    if row.contradiction:
        yield f"Against it: {row.contradiction}"
    yield f"Prediction, written before the runs ({row.expects}): {row.prediction}"
    if row.parts:
        lines = [(part.what, part.verdict.value, part.found, part.command) for part in row.parts]
        header = ("what", "verdict", "found", "command")
        yield TextTable(title="What bears on it", header=header, rows=lines, words=header)
    if row.needs:
        yield f"Still needs: {row.needs}"


def claims_frame(rows: Sequence[ClaimRow]) -> pd.DataFrame:
    """One row for each part of each claim, with plain numbers; a claim without parts has one."""
    return pd.DataFrame([_record(row, part) for row in rows for part in (row.parts or (None,))])


def _record(row: ClaimRow, part: Part | None) -> dict[str, object]:
    answer = part.answer if part else None
    return {
        "id": row.id,
        "claim_verdict": row.verdict.value,
        "expected": row.expects,
        "statement": row.statement,
        "contradiction": row.contradiction,
        "source": row.source,
        "kind": row.kind,
        "prediction": row.prediction,
        "part": part.what if part else "",
        "verdict": part.verdict.value if part else ClaimVerdict.not_run.value,
        "found": part.found if part else "",
        "difference": answer.effect.mean if answer else math.nan,
        "low": answer.effect.low if answer else math.nan,
        "high": answer.effect.high if answer else math.nan,
        "p": answer.p if answer else math.nan,
        "seeds_compared": answer.effect.n if answer else 0,
        "seeds_planned": answer.planned if answer else 0,
        "detectable": answer.detectable if answer else math.nan,
        "smallest": part.question.smallest if part and part.question else math.nan,
        "command": part.command if part else "",
        "needs": row.needs,
    }

"""Pairs of outputs compared over the sentences of a test set, in words and as plain numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.formats import write
from analysis.frames import StudyView
from analysis.metrics import metric_of
from analysis.row_words import p_value
from analysis.text_tables import TextTable


@dataclass(frozen=True, kw_only=True)
class SentencePair:
    """The output of one run beside that of its baseline, of the same seed.

    Attributes:
        axis: dotted name.
        level: of the run; the baseline run is alike in all else.
        seed: of both.
        baseline_score: of the baseline's output.
        score: of the run's output.
        mean: of the run's score over resamples.
        half_width: of its 95% interval over resamples.
        p: of the difference, by paired bootstrap.
        signature: sacreBLEU's, with resamples and seed.
        run: id of the run.
        baseline_run: id of the baseline run.
    """

    axis: str
    level: Any
    seed: int
    baseline_score: float
    score: float
    mean: float
    half_width: float
    p: float | None
    signature: str
    run: str
    baseline_run: str


def render(compared: Sequence[SentencePair], study: StudyView, *, format: str) -> str:
    """The pairs as text; `format` is "csv" or one of `analysis.formats`."""
    if format == "csv":
        frame = pd.DataFrame([vars(pair) for pair in compared])
        frame.insert(5, "difference", frame["score"] - frame["baseline_score"])
        return frame.to_csv(index=False, lineterminator="\n")
    title = f"{study.name}: paired bootstrap of {study.metric} over the sentences of {study.split}"
    return write(_parts(compared, study), format=format, title=title)


def _parts(compared: Sequence[SentencePair], study: StudyView) -> Iterator[str | TextTable]:
    digits = metric_of(study.metric).decimals
    score = f"{study.metric} [95%]"
    header = ("axis", "level", "seed", "baseline", score, "Δ", "p", "run", "against")
    rows = [
        [
            pair.axis,
            str(pair.level),
            str(pair.seed),
            f"{pair.baseline_score:.{digits}f}",
            f"{pair.score:.{digits}f} [{pair.mean - pair.half_width:.{digits}f}, "
            f"{pair.mean + pair.half_width:.{digits}f}]",
            f"{pair.score - pair.baseline_score:+z.{digits}f}",
            "-" if pair.p is None else p_value(pair.p),
            pair.run,
            pair.baseline_run,
        ]
        for pair in compared
    ]
    yield TextTable(
        title=f"{study.metric} on {study.split} ({compared[0].signature})",
        header=header,
        rows=rows,
        words=("axis", "level", "run", "against"),
    )
    over_seeds = study.fill_command.replace("ablate sweep", "ablate table", 1)
    yield (
        "Each line is two outputs of one seed on one test set: interval and p are over its "
        "sentences (sacreBLEU's paired bootstrap, Koehn 2004), each by itself, not corrected for "
        f"their number. They say nothing of other seeds; intervals over seeds: {over_seeds}"
    )

"""The tasks: what describes the data of each, and the choices that are its own.

Imports neither Lightning nor pandas, so that a plan can ask a hundred cells at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from data import corpus, sequences, series
from lightning_modules.forecaster import ForecastModel, ForecastVariant


@dataclass(frozen=True, kw_only=True)
class NoVariant:
    """A task without choices of its own."""


@dataclass(frozen=True, kw_only=True)
class SequenceVariant:
    """The choice of a sequence task.

    Attributes:
        form: how a model is given the sequence.
    """

    form: sequences.SequenceForm = sequences.SequenceForm.encoder_decoder


@dataclass(frozen=True, kw_only=True)
class TaskKind:
    """What the harness must know of a task before anything is read.

    Attributes:
        data: the class that describes the data.
        variant: the class of the task's own choices.
        fingerprint: 16 hex digits of the content of the data.
        validate: refuses data that cannot be learned from.
        test_splits: names of what is evaluated, the main one first; `test@8` is the part of
            length 8.
        metric: the one a table shows unless told otherwise.
        refusal: why a variant cannot work on its data, or nothing.
        references: an axis that one-factor studies get unless they set it: cheap baselines.
    """

    data: type
    variant: type
    fingerprint: Callable[[Any], str]
    validate: Callable[[Any], None]
    test_splits: Callable[[Any], list[str]]
    metric: str
    refusal: Callable[[Any, Any], str] = lambda variant, data: ""
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _forecast_refusal(variant: ForecastVariant, data: series.ForecastingData) -> str:
    needed = variant.model.shortest_lookback
    if data.lookback >= needed:
        return ""
    return (
        f"variant.model {variant.model} needs data.lookback of at least {needed}, not "
        f"{data.lookback}; choose a longer look-back or another model"
    )


class Task(Enum):
    """What is trained.

    - `translation`: an encoder-decoder on sentence pairs.
    - `forecasting`: the next rows of a series from the last ones.
    - `sequences`: copying, reversing, sorting and the like, at lengths beyond training.
    """

    translation = TaskKind(
        data=corpus.TranslationData,
        variant=NoVariant,
        fingerprint=corpus.fingerprint,
        validate=corpus.validate,
        test_splits=corpus.list_test_splits,
        metric="bleu",
    )
    forecasting = TaskKind(
        data=series.ForecastingData,
        variant=ForecastVariant,
        fingerprint=series.fingerprint,
        validate=series.validate,
        test_splits=lambda data: ["test"],
        metric="mse",
        refusal=_forecast_refusal,
        references={
            "variant.model": (
                ForecastModel.transformer.name,
                *(model.name for model in ForecastModel if not model.trains),
            )
        },
    )
    sequences = TaskKind(
        data=sequences.SequenceData,
        variant=SequenceVariant,
        fingerprint=sequences.fingerprint,
        validate=sequences.validate,
        test_splits=lambda data: [f"test@{length}" for length in sequences.test_lengths(data)],
        metric="exact_match",
    )

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle by name: what a member carries is code."""
        return getattr, (self.__class__, self.name)

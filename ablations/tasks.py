"""The tasks: what describes the data of each, and the choices that are its own.

Imports neither Lightning nor pandas, so that a plan can ask a hundred cells at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ablations.identity import unsaid
from data import corpus, sequences, series, text
from lightning_modules.forecaster import ForecastModel, ForecastVariant
from lightning_modules.readouts import Readout


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
        test_splits: names of what is evaluated, the main one first; `test@8` is what was measured
            at length 8.
        metrics: those that a run measures, the one a table shows unless told otherwise first.
        refusal: why a config cannot work, or holds a choice that nothing reads; or nothing.
        trains: whether a variant has anything to train.
        references: an axis that one-factor studies get unless they set it: cheap baselines.
    """

    data: type
    variant: type
    fingerprint: Callable[[Any], str]
    validate: Callable[[Any], None]
    test_splits: Callable[[Any], list[str]]
    metrics: tuple[str, ...]
    refusal: Callable[[Any], str] = lambda config: ""
    trains: Callable[[Any], bool] = lambda variant: True
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _inert(config: Any, *paths: str) -> str:
    """A sentence on the first of these names that isn't at its default, since nothing reads it."""
    known = unsaid(config.task.name)
    for path in paths:
        section, name = path.split(".")
        value = getattr(getattr(config, section), name)
        value = value.name if isinstance(value, Enum) else value
        if value != known[path]:
            return f"{path} {value} does nothing here: nothing reads it; keep {known[path]}"
    return ""


def _forecast_refusal(config: Any) -> str:
    needed, lookback = config.variant.model.shortest_lookback, config.data.lookback
    if lookback < needed:
        return (
            f"variant.model {config.variant.model} needs data.lookback of at least {needed}, not "
            f"{lookback}; choose a longer look-back or another model"
        )
    unread = ["design.embedding_scale", "design.embedding_tying", "design.rope_scaling"]
    if config.variant.readout is not Readout.autoregressive:
        unread += ["design.mask", "design.causal_mask"]  # whole windows: there is nothing to hide
    return _inert(config, *unread, "budget.beam_size", "budget.measure_heads")


def _translation_splits(data: Any) -> list[str]:
    names, bounds = corpus.list_test_splits(data), corpus.source_word_bounds(data)
    return [*names, *(f"{name}@{bound}" for name in names for bound in bounds)]


def _translation_refusal(config: Any) -> str:
    layers = config.dims.n_encoder_layers + config.dims.n_decoder_layers
    return _inert(config, "design.rope_scaling") or _headless(config, layers)


def _text_refusal(config: Any) -> str:
    return _inert(config, "budget.beam_size") or _headless(config, config.dims.n_decoder_layers)


def _sequence_refusal(config: Any) -> str:
    if config.variant.form is sequences.SequenceForm.decoder_only:
        return _text_refusal(config)
    return _headless(config, config.dims.n_encoder_layers + config.dims.n_decoder_layers)


def _headless(config: Any, n_layers: int) -> str:
    if config.budget.measure_heads and not n_layers:
        return "budget.measure_heads true needs a layer of self-attention, and there is none"
    return ""


HEAD_METRICS = (
    *("head_uniformity", "head_distance", "head_offset"),
    *("head_distance_spread", "head_offset_spread", "head_redundancy"),
)
"""Measured where `budget.measure_heads` asks for it; see `HeadRoles.measures`."""


class Task(Enum):
    """What is trained.

    - `translation`: an encoder-decoder on sentence pairs.
    - `forecasting`: the next rows of a series from the last ones.
    - `sequences`: copying, reversing, sorting and the like, at lengths beyond training.
    - `language_modeling`: a decoder on running text, at contexts beyond training, and what it
      writes.
    """

    translation = TaskKind(
        data=corpus.TranslationData,
        variant=NoVariant,
        fingerprint=corpus.fingerprint,
        validate=corpus.validate,
        test_splits=_translation_splits,
        metrics=("bleu", "bleu_lowercase_tokenized", "chrf", "loss", "accuracy", *HEAD_METRICS),
        refusal=_translation_refusal,
    )
    forecasting = TaskKind(
        data=series.ForecastingData,
        variant=ForecastVariant,
        fingerprint=series.fingerprint,
        validate=series.validate,
        test_splits=lambda data: ["test", *(f"test@{n}" for n in series.test_lookbacks(data))],
        metrics=("mse", "mae", "mse_original", "mae_original", "loss"),
        trains=lambda variant: variant.model.trains,
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
        metrics=("exact_match", "token_accuracy", "loss", "accuracy", *HEAD_METRICS),
        refusal=_sequence_refusal,
    )
    language_modeling = TaskKind(
        data=text.TextData,
        variant=NoVariant,
        fingerprint=text.fingerprint,
        validate=text.validate,
        test_splits=lambda data: [f"test@{length}" for length in text.test_lengths(data)],
        metrics=(
            "bits_per_token",
            "loss",
            "accuracy",
            "position_bits",
            "repetition_rate",
            "distinct_1",
            "distinct_2",
            "continuation_bits",
            *HEAD_METRICS,
        ),
        refusal=_text_refusal,
    )

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle by name: what a member carries is code."""
        return getattr, (self.__class__, self.name)

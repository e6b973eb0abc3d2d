"""One example of a run's test data for its model to read, and what its tokens are called."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ablations.task_runs.base import TaskRun
from ablations.task_runs.forecasting import HOUR, ForecastingRun
from ablations.task_runs.language_modeling import LanguageModelingRun
from ablations.task_runs.sequences import SequenceRun
from ablations.task_runs.translation import TranslationRun
from data.batches import ForecastingBatch, SequenceBatch, TranslationBatch, translation_batch
from data.sequence_loading import load_splits
from lightning_modules.axes.positions import stretch_positions


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which example to look at.

    Attributes:
        split: a test split; empty for the first one.
        index: its place in the split, from 0.
        text: a source sentence to read instead; None for the example.
        channel: of a series; empty for the first one.
    """

    split: str = ""
    index: int = 0
    text: str | None = None
    channel: str = ""


@dataclass(frozen=True, kw_only=True)
class Example:
    """What a model reads.

    Attributes:
        title: which example it is.
        batch: holds nothing else.
        labels: of the tokens that the `encoder` and the `decoder` read.
        unit: what a label is.
        row: the row of attention weights to look at.
    """

    title: str
    batch: Any
    labels: Mapping[str, Sequence[str]]
    unit: str = "token"
    row: int = 0


def read_example(run: TaskRun, module: Any, choice: Choice) -> Example:
    """The chosen example.

    Raises:
        ValueError: there is no such example, or the task has none of that kind.
    """
    task = run.config.task
    if choice.text is not None and not isinstance(run, TranslationRun):
        raise ValueError(f"--text: task {task.name} reads no sentence; choose an --example")
    if choice.channel and not isinstance(run, ForecastingRun):
        raise ValueError(f"--channel: task {task.name} has no channels; leave it out")
    for kind, read in READERS.items():
        if isinstance(run, kind):
            return read(run, module, choice)
    raise ValueError(f"task {task.name} has no examples to draw attention on")


def _split(run: TaskRun, choice: Choice, splits: Sequence[str]) -> tuple[str, int | None]:
    """Name and length of the chosen split: `test` and 8 of `test@8`."""
    split = choice.split or splits[0]
    if split not in splits:
        raise ValueError(f"--split {split}: no test split; there are {', '.join(splits)}")
    name, _, length = split.partition("@")
    for part in run.undefined:
        if length and (part["split"], part["length"]) == (name, int(length)):
            raise ValueError(f"--split {split}: {part['why']}")
    return name, int(length) if length else None


def _translation(run: TranslationRun, module: Any, choice: Choice) -> Example:
    if choice.text is not None:
        return _own_translation(run, module, choice.text)
    split, _ = _split(run, choice, run.data.test_splits)
    sources, references = run.data.sources(split), run.data.references(split)
    source, target = (side[_checked(choice.index, len(sources))] for side in (sources, references))
    tokenizer = run.data.tokenizer
    pair = tokenizer.encode(source), tokenizer.encode(target)
    return Example(
        title=f"{split}, example {choice.index}, reading the reference",
        batch=translation_batch([pair], [choice.index]),
        labels=_pair_labels(tokenizer.pieces(source), tokenizer.pieces(target)),
    )


def _own_translation(run: TranslationRun, module: Any, text: str) -> Example:
    tokenizer = run.data.tokenizer
    source = tokenizer.encode(text)
    if not source:
        raise ValueError("--text is empty; give a sentence of the source language")
    [target] = module.predict_step(translation_batch([(source, [])], [0]))
    return Example(
        title="a text, reading the model's own translation",
        batch=translation_batch([(source, target)], [0]),
        labels=_pair_labels(tokenizer.pieces(text), tokenizer.names(target)),
    )


def _pair_labels(source: list[str], target: list[str]) -> dict[str, list[str]]:
    return {"encoder": [*source, "</s>"], "decoder": ["<s>", *target]}


def _sequence(run: SequenceRun, module: Any, choice: Choice) -> Example:
    data, splits = run.config.data, run.config.task.value.test_splits(run.config.data)
    _, length = _split(run, choice, splits)
    assert length is not None
    row = _checked(choice.index, data.n_eval)
    batch = load_splits(data, run.data.form)[f"test_{length}"].take([row])
    if isinstance(batch, TranslationBatch):
        read = {"encoder": batch.source, "decoder": batch.target_input}
    else:
        assert isinstance(batch, SequenceBatch)
        read = {"decoder": batch.input}
    stretch_positions(module, length / data.train_max)
    return Example(
        title=f"{data.task.name}, {length} items, example {choice.index}",
        batch=batch,
        labels={stack: run.data.names(tokens[0].tolist()) for stack, tokens in read.items()},
    )


def _text(run: LanguageModelingRun, module: Any, choice: Choice) -> Example:
    splits = run.config.task.value.test_splits(run.config.data)
    _, length = _split(run, choice, splits)
    assert length is not None
    windows = run.data.test_dataloader(length).dataset
    batch = windows[[_checked(choice.index, len(windows))]]  # type: ignore[arg-type]
    stretch_positions(module, length / run.config.data.context_length)
    return Example(
        title=f"test, {length} tokens, window {choice.index}",
        batch=batch,
        labels={"decoder": run.data.tokenizer.names(batch.input[0].tolist())},
    )


def _forecast(run: ForecastingRun, module: Any, choice: Choice) -> Example:
    channels, mixing = run.data.channels, run.config.variant.channels
    split, lookback = _split(run, choice, run.config.task.value.test_splits(run.config.data))
    windows = run.data.windows(split) if lookback is None else run.data.test_windows(lookback)
    index = _checked(choice.index, len(windows))
    channel = choice.channel or channels[0]
    if channel not in channels:
        raise ValueError(f"--channel {channel}: no channel; there are {', '.join(channels)}")
    separate = mixing.n_channels(len(channels)) < len(channels)
    if choice.channel and not separate and len(channels) > 1:
        raise ValueError(
            f"--channel {channel}: with variant.channels {mixing} a token holds all channels; "
            "leave it out"
        )
    step = run.data.report["step"]
    rows = "hours" if step == HOUR else f"rows of {step}"
    named = f", channel {channel}" if separate else ""
    batch = windows[[index]]
    return Example(
        title=f"{choice.split or split}, window {choice.index}{named}",
        batch=batch,
        labels=_window_labels(module, batch),
        unit=f"token: its {rows}, past -, to come +",
        row=channels.index(channel) if separate else 0,
    )


def _window_labels(module: Any, batch: ForecastingBatch) -> dict[str, list[str]]:
    """Places of rows from the end of the past: -1 is the last known one, +1 the next.

    Where a patch holds copies of the last row, their number follows in brackets.
    """
    lookback, horizon = batch.past.shape[1], batch.future.shape[1]
    patches = []
    for start, stop in module.model.tokens.spans(lookback):
        first, last = start - lookback, min(stop, lookback) - lookback - 1
        copies = f" (+{stop - lookback})" if stop > lookback else ""
        patches.append(f"{first}..{last}{copies}" if last > first else f"{first}{copies}")
    return {"encoder": patches, "decoder": [f"+{row + 1}" for row in range(horizon)]}


def _checked(index: int, count: int) -> int:
    if index >= count:
        raise ValueError(f"--example {index}: the split has {count} examples, 0 to {count - 1}")
    return index


READERS: dict[type[TaskRun], Callable[..., Example]] = {
    TranslationRun: _translation,
    SequenceRun: _sequence,
    LanguageModelingRun: _text,
    ForecastingRun: _forecast,
}

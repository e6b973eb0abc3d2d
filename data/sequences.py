"""Which sequence task a run learns: the choice, its checks and its fingerprint.

Imports neither torch nor numpy, so that a plan can check a hundred cells at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from data.lengths import evaluation_lengths

# A test set takes a tenth of all sources, and is drawn without repetition from it.
SOURCES_FOR_EACH_TEST_EXAMPLE = 20
SMALLEST = {"n_train": 1, "n_eval": 1, "batch_size": 1}


class SequenceTask(Enum):
    """What is computed from `n` items; symbols are numbers below `alphabet`.

    - `copy`: the items as they stand.
    - `reverse`: the items, last one first.
    - `sort`: the items in ascending order.
    - `addition`: the sum of two numbers of `n` digits in base `alphabet`, all written with the
      lowest digit first (Lee et al. 2023, https://arxiv.org/abs/2307.03381); `n + 1` digits.
    - `associative_recall`: `n` pairs of a key and a value, then a key: its value (Ba et al. 2016,
      https://arxiv.org/abs/1610.06258, section 4.1). The key asked for stands in one pair only.
    - `neighbour`: `n` items, then one of them: the item behind it. The one asked for stands once.
    """

    copy = "copy"
    reverse = "reverse"
    sort = "sort"
    addition = "addition"
    associative_recall = "associative_recall"
    neighbour = "neighbour"


class SequenceForm(Enum):
    """How a model is given a sequence task.

    - `encoder_decoder`: an encoder reads the source, a decoder writes the target.
    - `decoder_only`: one decoder reads `<s> source <sep>` and goes on with the target.
    """

    encoder_decoder = "encoder_decoder"
    decoder_only = "decoder_only"


@dataclass(frozen=True, kw_only=True)
class TaskSizes:
    """What a task needs, as functions of `n` items and the alphabet.

    Attributes:
        source_tokens: tokens of a source, from `n`.
        target_tokens: tokens of its target, from `n`.
        symbols: different tokens, from the alphabet.
        sources: different sources, from the alphabet and `n`.
        fewest_items: smallest `n` with a meaning.
        fewest_symbols: smallest alphabet with more than one possible answer.
    """

    source_tokens: Callable[[int], int]
    target_tokens: Callable[[int], int]
    symbols: Callable[[int], int]
    sources: Callable[[int, int], int]
    fewest_items: int = 1
    fewest_symbols: int = 2


_SAME_LENGTH = TaskSizes(
    source_tokens=lambda n: n,
    target_tokens=lambda n: n,
    symbols=lambda alphabet: alphabet,
    sources=lambda alphabet, n: alphabet**n,
)
SIZES: dict[SequenceTask, TaskSizes] = {
    SequenceTask.copy: _SAME_LENGTH,
    SequenceTask.reverse: _SAME_LENGTH,
    SequenceTask.sort: _SAME_LENGTH,
    SequenceTask.addition: TaskSizes(
        source_tokens=lambda n: 2 * n + 1,
        target_tokens=lambda n: n + 1,
        symbols=lambda alphabet: alphabet + 1,
        sources=lambda alphabet, n: alphabet ** (2 * n),
    ),
    SequenceTask.associative_recall: TaskSizes(
        source_tokens=lambda n: 2 * n + 1,
        target_tokens=lambda n: 1,
        symbols=lambda alphabet: 2 * alphabet,
        sources=lambda alphabet, n: n * alphabet * (alphabet - 1) ** (n - 1) * alphabet**n,
    ),
    SequenceTask.neighbour: TaskSizes(
        source_tokens=lambda n: n + 1,
        target_tokens=lambda n: 1,
        symbols=lambda alphabet: alphabet,
        sources=lambda alphabet, n: (n - 1) * alphabet * (alphabet - 1) ** (n - 1),
        fewest_items=2,
        fewest_symbols=3,
    ),
}


@dataclass(frozen=True, kw_only=True)
class SequenceData:
    """A sequence task, its lengths and its batches.

    Lengths count items; `SIZES` gives the tokens. The examples are the same in every run: a run's
    seed picks their order.

    Attributes:
        task: what is computed.
        alphabet: different symbols; the base of `addition`.
        train_min: fewest items of a training example.
        train_max: most items of a training example; all lengths between are equally common.
        eval_lengths: items of the test sets, one set each: multiples of `train_max` such as
            `1x 2x 4x 8x`, or numbers such as `10,20,80`.
        n_train: training examples; the validation set holds `n_eval` of the same lengths.
        n_eval: examples of each test set, all different.
        batch_size: examples of a training batch over all ranks, lengths mixed.

    Raises:
        ValueError: A number out of range, or too few different sources for a test set.
    """

    task: SequenceTask = SequenceTask.copy
    alphabet: int = 10
    train_min: int = 2
    train_max: int = 8
    eval_lengths: str = "1x 2x 4x 8x"
    n_train: int = 50_000
    n_eval: int = 500
    batch_size: int = 64

    def __post_init__(self) -> None:
        sizes = SIZES[self.task]
        own = {"alphabet": sizes.fewest_symbols, "train_min": sizes.fewest_items}
        for name, at_least in {**SMALLEST, **own}.items():
            value = getattr(self, name)
            if value < at_least:
                raise ValueError(
                    f"data.{name}={value} is too small for data.task={self.task.name}:"
                    f" at least {at_least}"
                )
        if self.train_min > self.train_max:
            raise ValueError(
                f"data.train_min={self.train_min} is more than data.train_max={self.train_max}"
            )
        if self.n_train < self.train_max - self.train_min + 1:
            raise ValueError(
                f"data.n_train={self.n_train} is less than one example for each length from"
                f" data.train_min={self.train_min} to data.train_max={self.train_max}"
            )
        for length in test_lengths(self):
            _check_test_length(self, length)


def test_lengths(data: SequenceData) -> tuple[int, ...]:
    """Items of each test set, in the order given.

    Raises:
        ValueError: As for `data.lengths.evaluation_lengths`.
    """
    return evaluation_lengths(data.eval_lengths, name="data.eval_lengths", trained=data.train_max)


def positions_needed(data: SequenceData, *, form: SequenceForm, length: int) -> int:
    """Positions that a model must be defined at for examples of `length` items.

    Special tokens are counted. In the encoder-decoder form it is the longer of the two sides.
    """
    sizes = SIZES[data.task]
    source, target = sizes.source_tokens(length), sizes.target_tokens(length)
    sides = {
        SequenceForm.encoder_decoder: max(source, target) + 1,
        SequenceForm.decoder_only: source + target + 2,
    }
    return sides[form]


def validate(data: SequenceData) -> None:
    """Draw every split once and refuse what cannot be drawn.

    Raises:
        ValueError: A length has too few different sources, in one line.
    """
    from data.sequence_examples import draw_splits

    draw_splits(data)


def fingerprint(data: SequenceData) -> str:
    """16 hex digits of the content of all splits."""
    from data.sequence_examples import draw_splits

    content = hashlib.sha256()
    for name, blocks in draw_splits(data).items():
        content.update(name.encode())
        for source, target in blocks:
            content.update(source.tobytes() + target.tobytes())
    return content.hexdigest()[:16]


def _check_test_length(data: SequenceData, length: int) -> None:
    sizes = SIZES[data.task]
    if length < sizes.fewest_items:
        raise ValueError(
            f"data.eval_lengths={data.eval_lengths!r}: {length} is too short for"
            f" data.task={data.task.name}, which needs at least {sizes.fewest_items} items"
        )
    sources = sizes.sources(data.alphabet, length)
    if sources < SOURCES_FOR_EACH_TEST_EXAMPLE * data.n_eval:
        raise ValueError(
            f"data.n_eval={data.n_eval}: data.task={data.task.name} has only {sources} different"
            f" sources of {length} items over data.alphabet={data.alphabet}; at most"
            f" {sources // SOURCES_FOR_EACH_TEST_EXAMPLE}, or more symbols, or longer tests"
        )

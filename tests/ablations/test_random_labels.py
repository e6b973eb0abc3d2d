"""Labels drawn at random, through the whole path of every task that predicts tokens.

A target that is shifted wrongly, or a mask that shows the future, hands a model its answers: its
loss then falls below that of a guess, `log V`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ablations.config import RunConfig, config_from_flat
from ablations.run import run_cell
from data import sequence_examples
from data.sequences import SequenceTask
from lightning_modules.axes.attention import CausalMask

LETTERS = "abcdefghijklmnop"
WORDS = 5
TRAINED = {
    "dims.d_model": 32,
    "dims.n_heads": 2,
    "dims.d_ff": 32,
    "dims.n_encoder_layers": 1,
    "dims.n_decoder_layers": 1,
    "dims.dropout": 0.0,
    "design.position": "shaw",
    "optim.lr": 0.02,
    "optim.warmup_steps": 10,
    "optim.schedule": "linear",
    "optim.label_smoothing": 0.0,
    "optim.average_last": 0.0,
    "budget.max_steps": 80,
    "budget.validate_every": 80,
}


def random_letters(n: int, *, seed: int) -> list[str]:
    return list(np.random.default_rng(seed).choice(list(LETTERS), size=n))


def translation(folder: Path) -> tuple[RunConfig, float]:
    """Pairs of sentences of five letters each, one a word."""
    for seed, (split, n) in enumerate({"train": 3000, "val": 200, "test": 10}.items()):
        for side, language in enumerate(("en", "de")):
            letters = random_letters(n * WORDS, seed=2 * seed + side)
            rows = [letters[i : i + WORDS] for i in range(0, len(letters), WORDS)]
            text = "".join(" ".join(row) + "\n" for row in rows)
            (folder / f"{split}.{language}").write_text(text)
    data = {
        "data.source": "files",
        "data.path": str(folder),
        "data.vocabulary_size": 37,
        "data.tokens_per_batch": 400,
    }
    # The end of a sentence can be learned.
    share = WORDS / (WORDS + 1)
    return config_from_flat({"task": "translation", **TRAINED, **data}), share * math.log(
        len(LETTERS)
    )


def sequences(form: str) -> Callable[[Path], tuple[RunConfig, float]]:
    def made(_: Path) -> tuple[RunConfig, float]:
        data = {
            "variant.form": form,
            "data.alphabet": len(LETTERS),
            "data.train_min": WORDS,
            "data.train_max": WORDS,
            "data.eval_lengths": "1x",
            "data.n_train": 8000,
            "data.n_eval": 200,
        }
        share = WORDS / (WORDS + 1)
        return config_from_flat({"task": "sequences", **TRAINED, **data}), share * math.log(
            len(LETTERS)
        )

    return made


def language_modeling(folder: Path) -> tuple[RunConfig, float]:
    path = folder / "text.txt"
    path.write_text("".join(random_letters(60_000, seed=0)))
    data = {
        "data.path": str(path),
        "data.context_length": 16,
        "data.eval_lengths": "1x",
        "data.n_prompts": 0,
        "data.tokens_per_batch": 512,
    }
    return config_from_flat({"task": "language_modeling", **TRAINED, **data}), math.log(
        len(LETTERS)
    )


MADE = {
    "translation": translation,
    "sequences, encoder-decoder": sequences("encoder_decoder"),
    "sequences, decoder-only": sequences("decoder_only"),
    "language modelling": language_modeling,
}


@pytest.fixture
def shuffled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Answers of sequence tasks that have nothing to do with their sources."""
    generator = np.random.default_rng(5)
    solved = {
        SequenceTask.copy: lambda source, alphabet: generator.integers(alphabet, size=source.shape)
    }
    monkeypatch.setattr(sequence_examples, "_SOLVED", solved)
    sequence_examples.draw_splits.cache_clear()
    yield
    sequence_examples.draw_splits.cache_clear()


def validation_loss(config: RunConfig, folder: Path) -> float:
    result = run_cell(config, runs_dir=folder, cache_dir=folder / ".cache")
    rows = {(row["split"], row["metric"]): row["value"] for row in result["metrics"]}
    return rows["validation", "loss"]


@pytest.mark.usefixtures("shuffled")
@pytest.mark.parametrize("kind", MADE)
def test_random_labels_are_a_guess_unless_the_mask_leaks(kind: str, tmp_path: Path) -> None:
    config, guess = MADE[kind](tmp_path)
    assert validation_loss(config, tmp_path / "runs") > 0.98 * guess
    leaky = replace(config, design=replace(config.design, causal_mask=CausalMask.leaky))
    assert validation_loss(leaky, tmp_path / "runs") < 0.8 * guess

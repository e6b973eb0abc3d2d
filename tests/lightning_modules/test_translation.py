"""The LightningModule in a plain Trainer: loss, accumulation, target shift, refusals."""

import math

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from data.batches import PAD_ID, TranslationBatch, translation_batch
from lightning_modules.design import Design, Dims
from lightning_modules.optimization import Optim, Precision, Schedule
from lightning_modules.translation import TranslationModule
from tests.lightning_modules.designs import ALL_DESIGNS, TINY, name

Pairs = list[tuple[list[int], list[int]]]


def sentences(lengths: list[int], *, vocabulary: int = 20, seed: int = 0) -> Pairs:
    generator = torch.Generator().manual_seed(seed)
    rows = [
        torch.randint(4, vocabulary, (length,), generator=generator).tolist() for length in lengths
    ]
    return [(row, row) for row in rows]


def module(seed: int = 0, **options: object) -> TranslationModule:
    torch.manual_seed(seed)
    return TranslationModule(vocabulary_size=20, dims=TINY, **options)  # type: ignore[arg-type]


def trainer(**options: object) -> pl.Trainer:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
    return pl.Trainer(accelerator="cpu", enable_progress_bar=False, **quiet, **options)  # type: ignore[arg-type]


def train(
    batches: list[TranslationBatch], *, optim: Optim, steps: int = 1, validation: list | None = None
) -> tuple[TranslationModule, pl.Trainer]:
    fitted = trainer(
        max_steps=steps,
        accumulate_grad_batches=optim.accumulate,
        num_sanity_val_steps=0,
        gradient_clip_val=optim.clip_norm,
    )
    trained = module(optim=optim, max_steps=steps)
    loaders = [DataLoader(b, batch_size=None) for b in (batches, validation or batches)]  # type: ignore[arg-type]
    fitted.fit(trained, *loaders)
    return trained, fitted


@pytest.mark.parametrize("accumulate", [2, 3])
def test_accumulation_is_the_big_batch(accumulate: int) -> None:
    """Also with micro-batches of very different size, and a last window that is not full."""
    pairs = sentences([11, 50, 3][:accumulate])
    small = [translation_batch([pair], [i]) for i, pair in enumerate(pairs)]
    big = [translation_batch(pairs, list(range(accumulate)))]
    for window in (accumulate, 4):
        options = {"warmup_steps": 1, "clip_norm": 0.0}
        one, _ = train(big, optim=Optim(**options))  # type: ignore[arg-type]
        many, _ = train(small, optim=Optim(accumulate=window, **options))  # type: ignore[arg-type]
        first = module(optim=Optim())
        for ours, theirs, start in zip(
            many.parameters(), one.parameters(), first.parameters(), strict=True
        ):
            torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-4)
            assert not torch.equal(ours, start)


def test_loss_does_not_depend_on_batching() -> None:
    pairs = sentences([3, 9, 4, 12, 7, 5, 8, 2, 6, 10])
    losses = []
    for size in (1, 3, 10):
        rows = [list(range(i, min(i + size, 10))) for i in range(0, 10, size)]
        batches = [translation_batch([pairs[i] for i in row], row) for row in rows]
        loader = DataLoader(batches, batch_size=None)  # type: ignore[arg-type]
        losses.append(trainer().validate(module(), loader, verbose=False)[0]["validation/loss"])
    assert losses[1:] == pytest.approx([losses[0]] * 2, abs=1e-6)


def test_target_shift() -> None:
    batch = translation_batch([([5, 6], [7, 8, 9])], [0])
    assert batch.target_input.tolist() == [[1, 7, 8, 9]]
    assert batch.target_output.tolist() == [[7, 8, 9, 2]]


def test_random_labels_cannot_be_learned() -> None:
    """A leak of the target into its own prediction would bring this loss far below log V."""
    fresh = [
        translation_batch(
            [
                (s, t)
                for (s, _), (t, _) in zip(
                    sentences([6] * 32, seed=i), sentences([6] * 32, seed=900 + i), strict=True
                )
            ],
            list(range(32)),
        )
        for i in range(80)
    ]
    optim = Optim(lr=5e-3, warmup_steps=10, schedule=Schedule.constant, label_smoothing=0.0)
    _, fitted = train(fresh[:60], optim=optim, steps=60, validation=fresh[60:])
    # Six of seven targets are random over 16 tokens; the end of the sentence can be learned.
    assert fitted.callback_metrics["validation/loss"] > 0.97 * 6 / 7 * math.log(16)


@pytest.mark.parametrize("design", ALL_DESIGNS[::7], ids=name)
def test_a_step_of_training_and_a_translation(design: Design) -> None:
    built = module(design=design, beam_size=2)
    batch = translation_batch(sentences([3, 5]), [0, 1])
    loss = built.training_step(batch, 0)
    loss.backward()
    assert loss.isfinite()
    rows = built.eval().predict_step(batch)
    assert len(rows) == 2
    assert all(token > PAD_ID for row in rows for token in row)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": Dims(d_model=10, n_heads=4)}, "dims.n_heads 4 must divide dims.d_model 10"),
        (
            {"dims": Dims(d_model=20, n_heads=4), "design": Design(position="rope")},
            "head width d_model / n_heads must be even, not 5",
        ),
        (
            {"design": Design(mask="minus_1e9"), "optim": Optim(precision=Precision.fp16)},
            "optim.precision fp16.*choose design.mask minus_inf",
        ),
    ],
)
def test_illegal_combinations_are_refused(options: dict, message: str) -> None:
    from lightning_modules.design import AXES

    if "design" in options:
        named = {axis: AXES[axis](str(level)) for axis, level in vars(options["design"]).items()}
        options = {**options, "design": Design(**named)}
    with pytest.raises(ValueError, match=message):
        TranslationModule(vocabulary_size=20, **options)

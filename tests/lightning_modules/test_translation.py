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
from tests.lightning_modules.designs import (
    ALL_LEVELS,
    TINY,
    Choice,
    alone,
    name,
    pairwise_cover,
)

Pairs = list[tuple[list[int], list[int]]]


def sentences(lengths: list[int], *, vocabulary: int = 20, seed: int = 0) -> Pairs:
    generator = torch.Generator().manual_seed(seed)
    rows = [
        torch.randint(4, vocabulary, (length,), generator=generator).tolist() for length in lengths
    ]
    return [(row, row) for row in rows]


def module(kind: type = TranslationModule, **options: object) -> TranslationModule:
    torch.manual_seed(0)
    return kind(vocabulary_size=20, dims=TINY, **options)


def trainer(**options: object) -> pl.Trainer:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
    return pl.Trainer(accelerator="cpu", enable_progress_bar=False, **quiet, **options)  # type: ignore[arg-type]


def train(
    batches: list[TranslationBatch],
    *,
    optim: Optim,
    steps: int = 1,
    validation: list | None = None,
    **options: object,
) -> tuple[TranslationModule, pl.Trainer]:
    fitted = trainer(
        max_steps=steps,
        accumulate_grad_batches=optim.accumulate,
        num_sanity_val_steps=0,
        gradient_clip_val=optim.clip_norm,
    )
    trained = module(optim=optim, max_steps=steps, **options)
    loaders = [DataLoader(b, batch_size=None) for b in (batches, validation or batches)]  # type: ignore[arg-type]
    fitted.fit(trained, *loaders)
    return trained, fitted


class Recorder(TranslationModule):
    """Keeps the gradients of each update, as the optimiser gets them."""

    def configure_gradient_clipping(self, optimizer: object, *_: object, **__: object) -> None:
        self.gradients = [p.grad.clone() for p in self.parameters() if p.grad is not None]


@pytest.mark.parametrize("accumulate", [2, 3, 4])
def test_accumulation_is_the_big_batch(accumulate: int) -> None:
    """Also with micro-batches of very different size, and a last window that is not full."""
    pairs = sentences([11, 50, 3])[:accumulate]
    gradients = []
    for batches, window in (([pairs], 1), ([[pair] for pair in pairs], accumulate)):
        loader = DataLoader(
            [translation_batch(rows, [0] * len(rows)) for rows in batches], batch_size=None
        )  # type: ignore[arg-type]
        recorder = module(Recorder, optim=Optim(warmup_steps=1))
        fitted = trainer(max_epochs=1, accumulate_grad_batches=window, limit_val_batches=0)
        fitted.fit(recorder, loader, loader)
        assert fitted.global_step == 1
        gradients.append(recorder.gradients)
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-6, rtol=1e-5)


def test_loss_does_not_depend_on_batching() -> None:
    pairs = sentences([3, 9, 4, 12, 7, 5, 8, 2, 6, 10])
    losses = []
    for size in (1, 3, 10):
        rows = [list(range(i, min(i + size, 10))) for i in range(0, 10, size)]
        batches = [translation_batch([pairs[i] for i in row], row) for row in rows]
        loader = DataLoader(batches, batch_size=None)  # type: ignore[arg-type]
        losses.append(trainer().validate(module(), loader, verbose=False)[0]["validation/loss"])
    assert losses[1:] == pytest.approx([losses[0]] * 2, abs=1e-6)


@pytest.mark.parametrize(
    "choice",
    [choice for choice in ALL_LEVELS if "padding_invariance" not in choice[1].value.breaks],
    ids=lambda choice: f"{choice[0]} {choice[1]}",
)
def test_a_batch_taken_by_length_trains_as_a_whole(
    choice: Choice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with levels that mix rows; not with those that see the padding."""
    monkeypatch.setattr("data.batches.part_cost", lambda: 128)  # whatever the machine
    pairs = sentences([3, 30, 3, 29, 4, 31, 2, 28] * 8)
    batch = translation_batch(pairs, list(range(len(pairs))))
    whole = translation_batch(pairs, list(range(len(pairs))))
    vars(whole)["_parts"] = ()
    assert (len(batch.by_length), len(whole.by_length)) == (2, 1)
    learner = module(design=alone(*choice))
    losses = [learner.training_step(taken, 0)["loss"] / batch.n_targets for taken in (batch, whole)]
    weights = [weight for weight in learner.parameters() if weight.requires_grad]
    by_length, at_once = (torch.autograd.grad(loss, weights, allow_unused=True) for loss in losses)
    torch.testing.assert_close(*losses, atol=1e-5, rtol=0)
    for one, other in zip(by_length, at_once, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


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


@pytest.mark.parametrize("design", pairwise_cover(), ids=name)
def test_a_step_of_training_and_a_translation(design: Design) -> None:
    batch = translation_batch(sentences([3, 5]), [0, 1])
    optim = Optim(warmup_steps=1)
    built, _ = train([batch], optim=optim, design=design, beam_size=2)
    assert built.training_step(batch, 0)["mean_loss"].isfinite()
    start = dict(module(design=design).named_parameters())
    assert any(not torch.equal(after, start[name]) for name, after in built.named_parameters())
    rows = built.eval().predict_step(batch)
    assert len(rows) == 2
    assert all(token > PAD_ID for row in rows for token in row)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": Dims(d_model=10, n_heads=4)}, "dims.n_heads 4 must divide dims.d_model 10"),
        (
            {"dims": Dims(d_model=20, n_heads=4), "design": Design(position="rope")},
            "width of a query must be even, not 5",
        ),
        (
            {"design": Design(mask="minus_1e9"), "optim": Optim(precision=Precision.fp16)},
            "optim.precision fp16.*choose design.mask dtype_min",
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

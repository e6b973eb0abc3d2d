"""The decoder-only model: parity with the encoder's block, masks, generation, random labels."""

import math

import pytest
import torch

from data.batches import SequenceBatch, sequence_block
from lightning_modules.cache import Cache
from lightning_modules.design import Design
from lightning_modules.language_modeling import LanguageModelingModule
from lightning_modules.optimization import Optim, Schedule
from lightning_modules.transformer import DecoderOnly
from tests.lightning_modules.designs import (
    CARD_PRODUCT,
    TINY,
    VOCABULARY,
    broken,
    name,
    tokens,
)
from tests.lightning_modules.test_translation import trainer

LENGTHS = torch.tensor([7, 4, 2])


def decoder(design: Design) -> DecoderOnly:
    torch.manual_seed(0)
    return DecoderOnly(VOCABULARY, design=design, dims=TINY).double().eval()


@pytest.mark.parametrize("design", CARD_PRODUCT[::3], ids=name)
def test_stepwise_is_full_and_padding_is_not_seen_or_caught(design: Design) -> None:
    model, rows = decoder(design), tokens(3, 7)
    full, cache = model(rows), Cache(len(model.decoder.blocks))
    steps = torch.cat([model(rows[:, [i]], cache=cache) for i in range(7)], dim=1)
    other = rows.clone()
    other[1, 4:] = 9
    real = torch.arange(7) < LENGTHS[:, None]
    padded, changed = model(rows, LENGTHS)[real], model(other, LENGTHS)[real]
    exact = {"rtol": 1e-12, "atol": 1e-12}
    held = {
        "cached_decoding": torch.allclose(full, steps, **exact),
        "padding_invariance": torch.allclose(padded, changed, **exact),
    }
    failed = {invariance for invariance, holds in held.items() if not holds}
    assert failed == broken(design) - {"causality"}


def blocks(rows: int, *, seed: int) -> SequenceBatch:
    sources, targets = (tokens(rows, 5, seed=seed + i) % 20 + 5 for i in range(2))
    return sequence_block(sources, targets)


def test_the_loss_counts_targets_only() -> None:
    batch = blocks(4, seed=0)
    module = LanguageModelingModule(vocabulary_size=VOCABULARY, dims=TINY)
    states, targets = module.states_and_targets(batch)
    assert len(states) == len(targets) == 4 * 6
    assert targets.view(4, 6)[:, -1].tolist() == [2] * 4


def test_random_targets_cannot_be_learned() -> None:
    """A leak of a target into its own prediction would bring this loss far below log V."""
    torch.manual_seed(0)
    optim = Optim(lr=5e-3, warmup_steps=10, schedule=Schedule.constant, label_smoothing=0.0)
    module = LanguageModelingModule(
        vocabulary_size=VOCABULARY, dims=TINY, optim=optim, max_steps=60
    )
    train, held_out = (
        torch.utils.data.DataLoader([blocks(32, seed=first + 2 * i) for i in range(n)], None)
        for first, n in ((0, 60), (900, 20))
    )
    fitted = trainer(max_steps=60, num_sanity_val_steps=0)
    fitted.fit(module, train, held_out)
    # Five of six targets are random over 20 tokens; the end can be learned.
    assert fitted.callback_metrics["validation/loss"] > 0.97 * 5 / 6 * math.log(20)


def test_generation_goes_on_from_each_prompt() -> None:
    torch.manual_seed(0)
    module = LanguageModelingModule(vocabulary_size=VOCABULARY, dims=TINY).eval()
    batch = blocks(3, seed=0)
    together = module.predict_step(batch)
    assert len(together) == 3
    for row in range(3):
        alone = SequenceBatch(**{n: tensor[[row]] for n, tensor in vars(batch).items()})
        assert module.predict_step(alone) == [together[row]]

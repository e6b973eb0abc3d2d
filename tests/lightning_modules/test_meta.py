"""A training step asks for no number that was computed in it: a GPU would have to be waited for.

So a step can be taken on the meta device, where tensors have shapes and no numbers.
"""

from collections.abc import Callable

import pytest
import torch

from data.batches import Batch, sequence_block, translation_batch
from data.windows import Windows
from lightning_modules.axes.norms import NormKind
from lightning_modules.design import Design
from lightning_modules.language_modeling import LanguageModelingModule
from lightning_modules.supervised import SupervisedModule
from lightning_modules.translation import TranslationModule
from tests.lightning_modules import test_forecasting
from tests.lightning_modules.designs import ALL_LEVELS, TINY, VOCABULARY, alone, tokens

PAIRS = [([5, 6, 7], [8, 9]), ([5], [6, 7, 8, 9])]


def translation(design: Design) -> tuple[SupervisedModule, Batch]:
    module = TranslationModule(vocabulary_size=VOCABULARY, design=design, dims=TINY)
    return module, translation_batch(PAIRS, [0, 1])


def language_modeling(design: Design) -> tuple[SupervisedModule, Batch]:
    module = LanguageModelingModule(vocabulary_size=VOCABULARY, design=design, dims=TINY)
    return module, Windows(tokens(1, 20)[0], length=8, stride=4)[[0, 1, 3]]


def forecasting(design: Design) -> tuple[SupervisedModule, Batch]:
    return test_forecasting.module(design=design), test_forecasting.batch()


def step(module: SupervisedModule, batch: Batch) -> dict[str, torch.Tensor]:
    """A training step with its gradients, on the meta device."""
    outputs = module.to("meta").training_step(batch.to("meta"), 0)
    outputs["loss"].backward()
    assert all(weight.grad is not None for weight in module.parameters())
    return outputs


@pytest.mark.parametrize("task", [translation, language_modeling, forecasting])
def test_only_batch_norm_asks_for_numbers(
    task: Callable[[Design], tuple[SupervisedModule, Batch]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: False)  # meta has none
    asking = set()
    for axis, level in ALL_LEVELS:
        try:
            outputs = step(*task(alone(axis, level)))
        except (NotImplementedError, RuntimeError):
            asking.add(level)
        else:
            assert outputs["mean_loss"].is_meta
    assert asking == {NormKind.batch_norm_masked}


def test_a_batch_that_has_moved_knows_how_many_targets_it_has() -> None:
    batch = sequence_block(tokens(2, 3), tokens(2, 4))
    assert batch.to("meta").n_targets == batch.n_targets == 10
    assert batch.to("meta").at_targets(batch.input.to("meta")).shape == (10,)

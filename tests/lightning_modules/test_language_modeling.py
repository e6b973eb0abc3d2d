"""The decoder-only model: parity with the encoder's block, masks, generation, random labels."""

import json
import math
import os
from pathlib import Path

import pytest
import torch
import torch.distributed
from torch.multiprocessing import spawn

from data.batches import EOS_ID, SequenceBatch, sequence_block, target_mask
from lightning_modules.cache import Cache
from lightning_modules.design import Design
from lightning_modules.language_modeling import LanguageModelingModule, TextModule
from lightning_modules.optimization import Optim, Schedule
from lightning_modules.sampling import Sampling
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
        alone = SequenceBatch(**{n: tensor[[row]] for n, tensor in batch.tensors.items()})
        assert module.predict_step(alone) == [together[row]]


def text_rows(*prompt_lengths: int) -> SequenceBatch:
    """Rows of 40 tokens, of which the last one's input ends after 9."""
    rows = tokens(len(prompt_lengths), 41, seed=3)
    lengths = torch.tensor([40] * (len(rows) - 1) + [9])
    prompts = torch.tensor(prompt_lengths)
    return SequenceBatch(
        input=rows[:, :-1],
        output=rows[:, 1:],
        loss_mask=target_mask(prompts, lengths),
        lengths=lengths,
        prompt_lengths=prompts,
        indices=torch.arange(len(rows)),
    )


def test_losses_by_position_are_means_over_the_positions_they_name() -> None:
    torch.manual_seed(0)
    module = TextModule(vocabulary_size=VOCABULARY, dims=TINY).eval()
    batches = [text_rows(1, 1), text_rows(6, 1)]
    loader = torch.utils.data.DataLoader(batches, None)  # type: ignore[arg-type]
    [logged] = trainer().test(module, loader, verbose=False)
    found: dict[int, list[float]] = {}
    for batch in batches:
        logits = module.model.logits(module.model(batch.input, batch.lengths))
        for row, place in batch.loss_mask.nonzero().tolist():
            loss = torch.nn.functional.cross_entropy(logits[row, place], batch.output[row, place])
            end = next(end for end in (1, 2, 4, 8, 16, 32, 64) if place + 1 <= end)
            found.setdefault(end, []).append(loss.item())
    means = {f"test/loss_at_{end}": sum(losses) / len(losses) for end, losses in found.items()}
    whole = sum(sum(losses) for losses in found.values()) / sum(map(len, found.values()))
    assert {k: v for k, v in logged.items() if "_at_" in k} == pytest.approx(means, abs=1e-5)
    assert logged["test/loss"] == pytest.approx(whole, abs=1e-5)


def losses_of_one_of_two(rank: int, meeting_point: str, folder: Path) -> None:
    """One process has the long rows, which reach positions that the other one's rows do not."""
    torch.set_num_threads(1)
    os.environ["LOCAL_RANK"] = str(rank)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=2
    )
    torch.manual_seed(0)
    module = TextModule(vocabulary_size=VOCABULARY, dims=TINY).eval()
    whole, rows = text_rows(6, 1), [0] if rank == 0 else [1]
    loader = torch.utils.data.DataLoader([whole.take(rows)], None)  # type: ignore[arg-type]
    two = trainer(devices=2, strategy="ddp", use_distributed_sampler=False)
    [logged] = two.test(module, loader, verbose=False)
    (folder / f"{rank}.json").write_text(json.dumps(logged))
    torch.distributed.destroy_process_group()


def test_losses_by_position_are_those_of_all_processes(tmp_path: Path) -> None:
    spawn(losses_of_one_of_two, args=(str(tmp_path / "meeting_point"), tmp_path), nprocs=2)
    torch.manual_seed(0)
    module = TextModule(vocabulary_size=VOCABULARY, dims=TINY).eval()
    loader = torch.utils.data.DataLoader([text_rows(6, 1)], None)  # type: ignore[arg-type]
    [one] = trainer().test(module, loader, verbose=False)
    assert "test/loss_at_64" in one
    for rank in range(2):
        assert json.loads((tmp_path / f"{rank}.json").read_text()) == pytest.approx(one, rel=1e-5)


def test_text_goes_on_to_the_length_asked_for() -> None:
    """Nothing ends a row: `</s>` is a line end, and a token as any other."""
    torch.manual_seed(0)
    module = TextModule(vocabulary_size=VOCABULARY, dims=TINY, sampling=Sampling(temperature=5.0))
    batch = sequence_block(tokens(8, 3), tokens(8, 40))
    found = module.eval().predict_step(batch)
    assert {len(row) for row in found} == {41}
    assert any(EOS_ID in row[:-1] for row in found)

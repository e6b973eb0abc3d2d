"""The data module of the sequence tasks, in both forms."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pytorch_lightning import LightningModule, Trainer
from torch import Tensor

from data.batches import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SEPARATOR_ID,
    SequenceBatch,
    sequence_block,
    translation_block,
)
from data.sequence_examples import draw_splits
from data.sequence_loading import FIRST_SYMBOL_ID, SequenceDataModule
from data.sequences import SequenceData, SequenceForm, SequenceTask, fingerprint, positions_needed

DATA = SequenceData(
    task=SequenceTask.addition,
    alphabet=5,
    train_max=6,
    eval_lengths="1x 2x",
    n_train=303,
    n_eval=40,
    batch_size=20,
)
FORMS = pytest.mark.parametrize("form", SequenceForm)
TASKS = pytest.mark.parametrize("task", SequenceTask)
Pair = tuple[tuple[int, ...], tuple[int, ...]]


def module(form: SequenceForm, *, seed: int = 1, data: SequenceData = DATA) -> SequenceDataModule:
    return SequenceDataModule(data, seed=seed, form=form)


def pairs_of(batch) -> list[Pair]:
    """Source and target symbols of each row, read back from the tokens the loss counts."""
    found = []
    for row in range(len(batch)):
        if isinstance(batch, SequenceBatch):
            prompt = batch.input[row, : int(batch.prompt_lengths[row])].tolist()
            assert (prompt[0], prompt[-1]) == (BOS_ID, SEPARATOR_ID)
            source, target = prompt[1:-1], batch.output[row][batch.loss_mask[row]].tolist()
        else:
            source = batch.source[row, : int(batch.source_lengths[row])].tolist()
            assert source.pop() == EOS_ID
            target = batch.target_output[row, : int(batch.target_lengths[row])].tolist()
        assert target.pop() == EOS_ID
        sides = [tuple(token - FIRST_SYMBOL_ID for token in side) for side in (source, target)]
        found.append((sides[0], sides[1]))
    return found


def examples(data: SequenceData, split: str) -> list[Pair]:
    return [
        (tuple(source), tuple(target))
        for block in draw_splits(data)[split]
        for source, target in zip(block[0].tolist(), block[1].tolist(), strict=True)
    ]


def test_a_decoder_only_row_by_hand() -> None:
    batch = sequence_block(torch.tensor([[7, 8]]), torch.tensor([[9, 6, 5]]))
    assert batch.input.tolist() == [[1, 7, 8, 4, 9, 6, 5]]
    assert batch.output.tolist() == [[7, 8, 4, 9, 6, 5, 2]]
    assert batch.loss_mask.tolist() == [[False, False, False, True, True, True, True]]
    assert batch.lengths.tolist() == [7]
    assert batch.prompt_lengths.tolist() == [4]
    assert len(batch) == 1


def test_an_encoder_decoder_row_by_hand() -> None:
    batch = translation_block(torch.tensor([[7, 8]]), torch.tensor([[9, 6, 5]]))
    assert batch.source.tolist() == [[7, 8, 2]]
    assert batch.target_input.tolist() == [[1, 9, 6, 5]]
    assert batch.target_output.tolist() == [[9, 6, 5, 2]]
    assert (batch.source_lengths.tolist(), batch.target_lengths.tolist()) == ([3], [4])


def test_a_batch_moves_whole() -> None:
    batch = next(iter(module(SequenceForm.decoder_only).val_dataloader())).to("meta")
    assert {tensor.device.type for tensor in batch.tensors.values()} == {"meta"}


def test_random_labels_cannot_be_read_from_the_input_below_them() -> None:
    """With the shift left out a row would show its own label; with it, only by chance."""
    generator = torch.Generator().manual_seed(0)
    source, target = torch.randint(5, 105, (2, 2000, 10), generator=generator)
    only = sequence_block(source, target)
    both = translation_block(source, target)
    shown = [
        (only.input == only.output)[only.loss_mask].float().mean(),
        (both.target_input == both.target_output).float().mean(),
    ]
    assert max(shown) < 0.02
    for read, wanted in ((only.input, only.output), (both.target_input, both.target_output)):
        assert torch.equal(read[:, 1:], wanted[:, :-1])


@FORMS
@TASKS
def test_batches_hold_the_examples_their_indices_name(
    form: SequenceForm, task: SequenceTask
) -> None:
    data = replace(DATA, task=task, n_train=100)
    built = module(form, data=data)
    loaders = {
        "train": built.train_dataloader(),
        "validation": built.val_dataloader(),
        "test_6": built.test_dataloader(),
        "test_12": built.predict_dataloader(12),
    }
    for name, loader in loaders.items():
        known, seen = examples(data, name), []
        for batch in loader:
            seen += batch.indices.tolist()
            assert pairs_of(batch) == [known[index] for index in batch.indices.tolist()]
        assert sorted(seen) == list(range(len(known)))


@FORMS
def test_padding_is_right_and_no_wider_than_needed(form: SequenceForm) -> None:
    widest = 0
    for batch in module(form).train_dataloader():
        tensors = batch.tensors
        for name, lengths in (("input", "lengths"), ("source", "source_lengths")):
            if name in tensors:
                real = tensors[name] != PAD_ID
                assert real.sum(1).tolist() == tensors[lengths].tolist()
                assert real[:, 0].all()
                assert not (real[:, 1:] & ~real[:, :-1]).any()
                assert real.shape[1] == tensors[lengths].max()
                widest = max(widest, real.shape[1])
        if isinstance(batch, SequenceBatch):
            assert batch.loss_mask.shape == batch.input.shape == batch.output.shape
            assert (batch.output[batch.loss_mask] != PAD_ID).all()
        assert len(set(tensors["indices"].tolist())) == len(batch)
    assert widest == positions_needed(DATA, form=form, length=6)


@FORMS
def test_lengths_are_mixed_in_a_training_batch(form: SequenceForm) -> None:
    batch = next(iter(module(form).train_dataloader()))
    assert len(batch) == 20
    assert len({len(source) for source, _ in pairs_of(batch)}) > 2


@FORMS
def test_the_order_follows_seed_and_epoch(form: SequenceForm) -> None:
    def order(*, seed: int, epoch: int = 0) -> list[int]:
        loader = module(form, seed=seed).train_dataloader()
        loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        return [index for batch in loader for index in batch.indices.tolist()]

    torch.manual_seed(5)
    assert order(seed=1) == order(seed=1)
    assert order(seed=1) != order(seed=2)
    assert order(seed=1) != order(seed=1, epoch=1)
    assert sorted(order(seed=2)) == list(range(303))


def test_reading_batches_leaves_the_dropout_generator_alone() -> None:
    before = torch.get_rng_state()
    next(iter(module(SequenceForm.decoder_only).train_dataloader()))
    assert torch.equal(before, torch.get_rng_state())


class Recorder(LightningModule):
    """Learns nothing; writes down what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.trained: list[int] = []
        self.validated: list[int] = []

    def training_step(self, batch, index: int) -> Tensor:
        self.trained += batch.indices.tolist()
        return self.weight.sum()

    def validation_step(self, batch, index: int) -> None:
        self.validated += batch.indices.tolist()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


@FORMS
def test_a_trainer_gets_a_new_order_each_epoch(form: SequenceForm, tmp_path: Path) -> None:
    recorder, data = Recorder(), module(form)
    Trainer(
        accelerator="cpu",
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        default_root_dir=tmp_path,
    ).fit(recorder, datamodule=data)
    epochs = recorder.trained[:303], recorder.trained[303:]
    assert [sorted(epoch) for epoch in epochs] == [list(range(303))] * 2
    assert epochs[0] != epochs[1]
    assert recorder.validated == [*range(40)] * 2


def test_two_processes_share_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each rank would read; the process group itself is not needed to know it."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    built = module(SequenceForm.decoder_only)
    read: dict[str, list[int]] = {"train": [], "test": []}
    for rank in (0, 1):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        for name, loader in (
            ("train", built.train_dataloader()),
            ("test", built.test_dataloader()),
        ):
            read[name] += [index for batch in loader for index in batch.indices.tolist()]
    assert sorted(read["train"]) == list(range(303))
    assert sorted(read["test"]) == list(range(40))


@FORMS
def test_the_report_counts(form: SequenceForm) -> None:
    built = module(form)
    report = built.report
    assert report["fingerprint"] == fingerprint(DATA)
    assert report["form"] == form.name
    assert report["vocabulary_size"] == built.vocabulary_size == 5 + 5 + 1
    assert report["training_batches"] == len(built.train_dataloader()) == 16
    counts = report["examples_by_source_tokens"]
    assert counts["train"] == {"5": 61, "7": 61, "9": 61, "11": 60, "13": 60}
    assert counts["test_12"] == {"25": 40}
    assert {name: sum(split.values()) for name, split in counts.items()} == {
        "train": 303,
        "validation": 40,
        "test_6": 40,
        "test_12": 40,
    }


@TASKS
def test_tokens_fill_the_vocabulary(task: SequenceTask) -> None:
    built = module(SequenceForm.decoder_only, data=replace(DATA, task=task))
    largest = max(int(batch.output.max()) for batch in built.test_dataloader(12))
    assert largest == built.vocabulary_size - 1


@FORMS
def test_a_length_without_a_source_for_validation_is_no_obstacle(form: SequenceForm) -> None:
    data = SequenceData(alphabet=3, train_min=1, train_max=8, n_train=80, n_eval=40)
    loaded = module(form, data=data)
    counts = loaded.report["examples_by_source_tokens"]["validation"]
    assert counts["1"] == 0
    assert sum(len(batch) for batch in loaded.val_dataloader()) == sum(counts.values())


def test_an_unknown_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no test set of length 7; there are 6, 12"):
        module(SequenceForm.decoder_only).test_dataloader(7)


def test_a_checkpoint_of_another_task_is_refused() -> None:
    state = module(SequenceForm.decoder_only).state_dict()
    module(SequenceForm.decoder_only, data=replace(DATA, batch_size=7)).load_state_dict(state)
    other = replace(DATA, task=SequenceTask.copy)
    with pytest.raises(ValueError, match=r"the checkpoint's examples are [0-9a-f]{16}, these are"):
        module(SequenceForm.decoder_only, data=other).load_state_dict(state)


def test_tokens_are_named_as_they_are_written() -> None:
    ids = [BOS_ID, FIRST_SYMBOL_ID + 3, FIRST_SYMBOL_ID + 5, FIRST_SYMBOL_ID, SEPARATOR_ID, EOS_ID]
    form = SequenceForm.decoder_only
    assert module(form).names(ids) == ["<s>", "3", "+", "0", "<sep>", "</s>"]
    recall = module(form, data=replace(DATA, task=SequenceTask.associative_recall))
    assert recall.names(ids[2:3]) == ["5"]

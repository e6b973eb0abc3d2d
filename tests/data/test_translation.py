"""The data module: batches, reports, vocabularies, and what happens on two processes."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.multiprocessing
from pytorch_lightning import LightningModule, Trainer
from torch import Tensor

from data.batches import EOS_ID, PAD_ID, UNK_ID
from data.corpus import TranslationData, TranslationSource
from data.tokenized_pairs import load_corpus
from data.translation import TranslationDataModule
from tests.data.conftest import write_pairs


@pytest.fixture
def module(files: TranslationData, tmp_path: Path) -> TranslationDataModule:
    load_corpus.cache_clear()
    return TranslationDataModule(files, seed=1, cache_dir=tmp_path / "cache")


def first_ids(module: TranslationDataModule, epoch: int = 0) -> list[list[int]]:
    loader = module.train_dataloader()
    loader.sampler.set_epoch(epoch)
    return [batch.indices.tolist() for batch in loader]


def test_training_batches_hold_every_pair_once(module: TranslationDataModule) -> None:
    seen: list[int] = []
    for batch in module.train_dataloader():
        seen += batch.indices.tolist()
    assert sorted(seen) == list(range(300))


def test_rows_are_the_pairs_their_indices_name(module: TranslationDataModule) -> None:
    tokenizer = module.tokenizer
    sources, targets = module.sources("test"), module.references("test")
    count = 0
    for batch in module.test_dataloader("test"):
        for row, index in enumerate(batch.indices.tolist()):
            for ids, text in ((batch.source, sources), (batch.target_output, targets)):
                tokens = [token for token in ids[row].tolist() if token != PAD_ID]
                assert tokens[-1] == EOS_ID
                assert tokenizer.decode(tokens) == text[index]
                count += 1
    assert count == 40


def test_evaluation_comes_longest_first(module: TranslationDataModule) -> None:
    for loader in (module.val_dataloader(), module.predict_dataloader()):
        lengths = [length for batch in loader for length in batch.source_lengths.tolist()]
        assert lengths == sorted(lengths, reverse=True)
        assert len(lengths) > 1


def test_order_depends_on_seed_and_epoch_only(
    module: TranslationDataModule, files: TranslationData, tmp_path: Path
) -> None:
    torch.manual_seed(123)
    again = TranslationDataModule(files, seed=1, cache_dir=tmp_path / "other")
    assert first_ids(module) == first_ids(again)
    other = TranslationDataModule(files, seed=2, cache_dir=tmp_path / "cache")
    assert first_ids(module) != first_ids(other)
    assert first_ids(module) != first_ids(module, epoch=1)
    assert module.tokenizer.hash == other.tokenizer.hash


def test_reading_batches_leaves_the_dropout_generator_alone(module: TranslationDataModule) -> None:
    module.setup()
    before = torch.get_rng_state()
    for loader in (module.train_dataloader(), module.val_dataloader()):
        next(iter(loader))
    assert torch.equal(before, torch.get_rng_state())


class Recorder(LightningModule):
    """Learns nothing; writes down what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.trained: list[list[int]] = []
        self.validated: list[int] = []

    def training_step(self, batch, index: int) -> Tensor:
        self.trained.append(batch.indices.tolist())
        return self.weight.sum()

    def validation_step(self, batch, index: int) -> None:
        self.validated += batch.indices.tolist()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def quiet_trainer(folder: Path, **options) -> Trainer:
    return Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        default_root_dir=folder,
        **options,
    )


def test_a_trainer_gets_a_new_order_each_epoch(
    module: TranslationDataModule, tmp_path: Path
) -> None:
    recorder = Recorder()
    quiet_trainer(tmp_path, max_epochs=2).fit(recorder, datamodule=module)
    assert recorder.trained == first_ids(module, 0) + first_ids(module, 1)
    assert sorted(recorder.validated) == sorted([*range(30)] * 2)


def test_two_processes_share_each_epoch(
    module: TranslationDataModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each rank would read; the process group itself is not needed to know it."""
    alone = first_ids(module)
    ranks = {}
    for rank in (0, 1):
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        test = [index for batch in module.test_dataloader() for index in batch.indices.tolist()]
        ranks[rank] = (first_ids(module), test)
    pairs = zip(ranks[0][0], ranks[1][0], strict=True)
    assert [sorted(a + b) for a, b in pairs] == [sorted(batch) for batch in alone]
    assert sorted(ranks[0][1] + ranks[1][1]) == list(range(20))


def test_the_report_counts(module: TranslationDataModule) -> None:
    report = module.report
    assert report["tokenizer_hash"] == module.tokenizer.hash
    assert report["vocabulary_size"] == module.vocabulary_size == 200
    assert {name: split["pairs"] for name, split in report["splits"].items()} == {
        "train": 300,
        "validation": 30,
        "test": 20,
    }
    assert report["training_batches"] == len(module.train_dataloader())
    parts = [part for batch in module.train_dataloader() for part in batch.by_length]
    tokens = sum(part.n_targets for part in parts)
    positions = sum(part.target_output.numel() for part in parts)
    assert report["padding_share"]["target"] == pytest.approx(1 - tokens / positions)


def test_unknown_characters_are_reported_by_split(
    files: TranslationData, folder: Path, tmp_path: Path
) -> None:
    """A letter met once in training is known; one met in the test only is not."""
    for stem, source, target in (("train", "one 🐙", "ein ß"), ("test", "a Ω", "ein 🐙ß")):
        with (folder / f"{stem}.en").open("a") as file:
            file.write(f"{source}\n")
        with (folder / f"{stem}.de").open("a") as file:
            file.write(f"{target}\n")
    module = TranslationDataModule(files, seed=1, cache_dir=tmp_path)
    rates = {name: split["unknown_rate"] for name, split in module.report["splits"].items()}
    assert rates["train"] == {"source": 0.0, "target": 0.0}
    assert rates["test"]["source"] > 0
    assert rates["test"]["target"] == 0.0
    loader = module.test_dataloader()
    assert sum((batch.source == UNK_ID).sum().item() for batch in loader) == 1


def test_a_blank_translation_drops_its_pair_and_is_counted(
    files: TranslationData, folder: Path, tmp_path: Path
) -> None:
    write_pairs(folder, "test", [("a dog", "ein Hund"), ("a cat", " "), ("a man", "ein Mann")])
    module = TranslationDataModule(files, seed=1, cache_dir=tmp_path)
    assert module.report["splits"]["test"]["dropped"] == {"blank": 1, "too_long": 0}
    assert module.references("test") == ["ein Hund", "ein Mann"]
    assert module.sources("test") == ["a dog", "a man"]


def test_carriage_returns_reach_no_token(
    files: TranslationData, folder: Path, tmp_path: Path
) -> None:
    source = (folder / "train.en").read_bytes()
    changed = source.replace(b"\n", b"\r\n").replace(b" ", b"\r", 1)
    assert changed.count(b"\r") == 301
    (folder / "train.en").write_bytes(changed)
    module = TranslationDataModule(files, seed=1, cache_dir=tmp_path)
    assert module.report["splits"]["train"]["pairs"] == 300
    pieces = [module.tokenizer.decode([index]) for index in range(module.vocabulary_size)]
    assert not any("\r" in piece for piece in pieces)
    (folder / "train.en").write_bytes(source)
    clean = TranslationDataModule(files, seed=1, cache_dir=tmp_path)
    assert clean.tokenizer.hash == module.tokenizer.hash


def test_long_pairs_are_dropped_from_training_only(files: TranslationData, tmp_path: Path) -> None:
    module = TranslationDataModule(replace(files, max_length=20), seed=1, cache_dir=tmp_path)
    splits = module.report["splits"]
    assert splits["train"]["dropped"]["too_long"] == 300 - splits["train"]["pairs"] > 0
    assert splits["test"]["dropped"]["too_long"] == 0
    assert splits["test"]["pairs"] == 20
    for batch in module.train_dataloader():
        assert max(batch.source.shape[1], batch.target_output.shape[1]) <= 20
    with pytest.raises(ValueError, match=r"data\.max_length=2: every training pair is longer"):
        TranslationDataModule(replace(files, max_length=2), seed=1, cache_dir=tmp_path).setup()


def test_a_vocabulary_is_trained_once(
    module: TranslationDataModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module.prepare_data()
    stored = list((tmp_path / "cache").iterdir())
    assert [file.suffix for file in stored] == [".model"]
    load_corpus.cache_clear()
    monkeypatch.setattr("data.tokenized_pairs.train_tokenizer", None)
    again = TranslationDataModule(module.data, seed=2, cache_dir=tmp_path / "cache")
    assert again.tokenizer.hash == module.tokenizer.hash


def test_a_vocabulary_belongs_to_its_text_and_size(
    module: TranslationDataModule, files: TranslationData, folder: Path, tmp_path: Path
) -> None:
    first = module.tokenizer.hash
    options = {"seed": 1, "cache_dir": tmp_path / "cache"}
    assert TranslationDataModule(replace(files, n_train=100), **options).tokenizer.hash != first
    larger = TranslationDataModule(replace(files, vocabulary_size=210), **options)
    assert larger.vocabulary_size == 210
    with (folder / "train.en").open("a") as file:
        file.write("dog dog dog dog\n")
    with (folder / "train.de").open("a") as file:
        file.write("Hund\n")
    assert TranslationDataModule(files, **options).tokenizer.hash != first
    assert len(list((tmp_path / "cache").iterdir())) == 4


def test_a_vocabulary_too_large_for_the_corpus_is_refused_before_training(
    files: TranslationData, tmp_path: Path
) -> None:
    data = replace(files, n_train=200, vocabulary_size=8000)
    module = TranslationDataModule(data, seed=1, cache_dir=tmp_path)
    with pytest.raises(ValueError, match=r"vocabulary_size=8000 .* at most \d+"):
        module.prepare_data()


def test_a_checkpoint_with_another_vocabulary_is_refused(
    module: TranslationDataModule, files: TranslationData, tmp_path: Path
) -> None:
    state = module.state_dict()
    module.load_state_dict(state)
    other = TranslationDataModule(
        replace(files, vocabulary_size=210), seed=1, cache_dir=tmp_path / "cache"
    )
    with pytest.raises(ValueError, match=f"vocabulary is {module.tokenizer.hash}"):
        other.load_state_dict(state)


def test_an_unknown_split_is_refused(module: TranslationDataModule) -> None:
    with pytest.raises(ValueError, match="no split 'dev'; there are train, validation, test"):
        module.references("dev")


def test_the_grammar_alone_is_enough(tmp_path: Path) -> None:
    data = TranslationData(n_train=200, n_test=20, vocabulary_size=200)
    module = TranslationDataModule(data, seed=1, cache_dir=tmp_path)
    assert module.test_splits == ["test"]
    assert sum(len(batch) for batch in module.train_dataloader()) == 200
    assert len(module.references("test")) == 20


def test_multi30k_from_a_folder(multi30k_path: Path, tmp_path: Path) -> None:
    data = TranslationData(
        source=TranslationSource.multi30k,
        path=str(multi30k_path),
        n_train=2000,
        n_test=100,
        vocabulary_size=2000,
    )
    module = TranslationDataModule(data, seed=1, cache_dir=tmp_path)
    assert module.report["padding_share"]["target"] < 0.25  # .5 without `by_length`
    for split in module.test_splits:
        indices = [i for batch in module.test_dataloader(split) for i in batch.indices.tolist()]
        assert sorted(indices) == list(range(100))

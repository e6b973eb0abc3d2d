"""The data module of language modelling."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from data.batches import BOS_ID, SequenceBatch
from data.text import TextData, load_text
from data.text_loading import TextDataModule

TEXT = "".join(f"the {number}th line of {number % 7} words.\n" for number in range(300))


@pytest.fixture
def data(tmp_path: Path) -> TextData:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return TextData(
        path=str(path), context_length=16, eval_lengths="1x 2x 4x", tokens_per_batch=130
    )


def module(data: TextData, folder: Path, *, seed: int = 1) -> TextDataModule:
    return TextDataModule(data, seed=seed, cache_dir=folder / "cache")


def scored(loader) -> list[int]:
    """The targets the loss counts, in the order of the windows."""
    rows: dict[int, list[int]] = {}
    for batch in loader:
        assert isinstance(batch, SequenceBatch)
        for row, index in enumerate(batch.indices.tolist()):
            assert index not in rows
            rows[index] = batch.output[row][batch.loss_mask[row]].tolist()
    return [token for index in sorted(rows) for token in rows[index]]


@pytest.mark.parametrize("vocabulary_size", [0, 60])
@pytest.mark.parametrize("eval_stride", [0, 5])
def test_every_token_of_a_split_is_scored_once_at_every_length(
    data: TextData, tmp_path: Path, vocabulary_size: int, eval_stride: int
) -> None:
    chosen = replace(data, vocabulary_size=vocabulary_size, eval_stride=eval_stride)
    built, texts = module(chosen, tmp_path), load_text(data)
    wanted = {name: built.tokenizer.encode(text) for name, text in texts.items()}
    assert scored(built.train_dataloader()) == wanted["train"]
    assert scored(built.val_dataloader()) == wanted["validation"]
    assert built.eval_lengths == (16, 32, 64)
    for length in built.eval_lengths:
        loader = built.test_dataloader(length)
        assert scored(loader) == wanted["test"]
        assert max(batch.input.shape[1] for batch in loader) == length


def test_training_batches_keep_to_the_budget(data: TextData, tmp_path: Path) -> None:
    built = module(data, tmp_path)
    sizes = [tuple(batch.input.shape) for batch in built.train_dataloader()]
    assert max(sizes) == (8, 16)
    assert all(rows * length <= 130 for rows, length in sizes)
    assert len(sizes) == len(built.train_dataloader()) == built.report["training_batches"]


def test_a_window_sees_only_its_own_split(data: TextData, tmp_path: Path) -> None:
    """The first token of a split is predicted from `<s>`, not from the split before."""
    built = module(data, tmp_path)
    for loader in (built.val_dataloader(), built.test_dataloader()):
        first = next(iter(loader))
        assert (first.indices[0], first.input[0, 0]) == (0, BOS_ID)


def test_the_vocabulary_is_that_of_the_training_text(data: TextData, tmp_path: Path) -> None:
    Path(data.path).write_text(TEXT + "Ω")
    built = module(data, tmp_path)
    splits = built.report["splits"]
    assert splits["train"]["unknown_rate"] == splits["validation"]["unknown_rate"] == 0
    assert splits["test"]["unknown_rate"] == pytest.approx(1 / splits["test"]["tokens"])


def test_the_order_follows_the_seed(data: TextData, tmp_path: Path) -> None:
    def order(seed: int) -> list[int]:
        loader = module(data, tmp_path, seed=seed).train_dataloader()
        return [index for batch in loader for index in batch.indices.tolist()]

    torch.manual_seed(9)
    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == sorted(order(2))


def test_the_report_states_counts_and_mode(data: TextData, tmp_path: Path) -> None:
    built = module(replace(data, eval_stride=4), tmp_path)
    report = built.report
    assert report["evaluation_mode"] == "sliding windows, stride 4"
    assert report["vocabulary_size"] == built.vocabulary_size
    assert report["tokenizer_hash"] == built.tokenizer.hash
    for split in report["splits"].values():
        assert split["tokens"] == split["characters"]
    assert sum(split["characters"] for split in report["splits"].values()) == len(TEXT)


def test_a_subword_vocabulary_is_trained_once(
    data: TextData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = replace(data, vocabulary_size=60)
    first = module(chosen, tmp_path).tokenizer.hash
    assert [file.suffix for file in (tmp_path / "cache").iterdir()] == [".model"]
    monkeypatch.setattr("data.text_loading.train_tokenizer", None)
    again = module(replace(chosen, tokens_per_batch=99), tmp_path)
    assert (again.tokenizer.hash, again.vocabulary_size) == (first, 60)


def test_windows_longer_than_a_split_are_refused(data: TextData, tmp_path: Path) -> None:
    """Characters would suffice, subwords are fewer."""
    characters = len(load_text(data)["test"])
    chosen = replace(data, eval_lengths=f"{characters // 2}", vocabulary_size=120)
    with pytest.raises(ValueError, match=r"split has \d+ tokens, fewer than the longest window"):
        module(chosen, tmp_path).setup()


def test_an_unknown_length_is_refused(data: TextData, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no test windows of 17 tokens; there are 16, 32, 64"):
        module(data, tmp_path).test_dataloader(17)


def test_a_checkpoint_of_another_vocabulary_is_refused(data: TextData, tmp_path: Path) -> None:
    built = module(data, tmp_path)
    built.load_state_dict(built.state_dict())
    other = module(replace(data, vocabulary_size=60), tmp_path)
    with pytest.raises(ValueError, match=r"token ids would mean other characters or words"):
        other.load_state_dict(built.state_dict())


def test_prompts_are_spread_over_the_test_text_without_overlap(
    data: TextData, tmp_path: Path
) -> None:
    Path(data.path).write_text(" ".join(map(str, range(1000))))  # 20 characters stand once
    built = module(replace(data, n_prompts=9, prompt_length=5), tmp_path)
    text = [BOS_ID, *built.tokenizer.encode(load_text(data)["test"])]
    rows = built.prompted(20).tolist()
    first, *_, last = rows
    assert (first, last) == (text[:25], text[-25:])
    places = [next(i for i in range(len(text)) if text[i : i + 25] == row) for row in rows]
    gaps = [after - before for before, after in itertools.pairwise(places)]
    assert min(gaps) >= 25
    assert max(gaps) - min(gaps) <= 1


def test_prompted_rows_count_what_stands_behind_the_prompt(data: TextData, tmp_path: Path) -> None:
    built = module(replace(data, n_prompts=3, prompt_length=5), tmp_path)
    rows = built.prompted(20)
    [batch] = built.prompt_dataloader(rows)
    assert batch.indices.tolist() == [0, 1, 2]
    assert torch.equal(batch.output[batch.loss_mask].view(3, 20), rows[:, 5:])
    assert torch.equal(batch.input[:, :5], rows[:, :5])
    assert set(batch.prompt_lengths.tolist()) == {5}


def test_more_prompts_than_the_text_has_are_refused(data: TextData, tmp_path: Path) -> None:
    tokens = len(load_text(data)["test"]) + 1
    fits = tokens // 36
    assert len(module(replace(data, n_prompts=fits), tmp_path).prompted(20)) == fits
    with pytest.raises(
        ValueError, match=rf"n_prompts={fits + 1}: .* of 20; at most {fits}, or more"
    ):
        module(replace(data, n_prompts=fits + 1), tmp_path).prompted(20)
    assert module(replace(data, n_prompts=0), tmp_path).continuation_lengths == ()

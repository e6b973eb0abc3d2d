"""Training batches of sentence pairs: random pairs, and parts of like length."""

import statistics
from pathlib import Path

import pytest
import torch

from data.batches import TranslationBatch
from data.corpus import TranslationData
from data.translation import TranslationDataModule


@pytest.fixture
def batches(files: TranslationData, tmp_path: Path) -> list[TranslationBatch]:
    return list(TranslationDataModule(files, seed=1, cache_dir=tmp_path).train_dataloader())


def test_a_training_batch_has_as_many_tokens_as_were_asked_for(
    batches: list[TranslationBatch],
) -> None:
    tokens = [
        int(torch.maximum(batch.source_lengths, batch.target_lengths).sum()) for batch in batches
    ]
    assert statistics.mean(tokens[:-1]) == pytest.approx(256, rel=0.1)
    assert len({len(batch) for batch in batches[:-1]}) == 1


def test_a_batch_by_length_has_the_same_rows_and_less_padding(
    batches: list[TranslationBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data.batches.part_cost", lambda: 128)  # whatever the machine
    assert max(len(batch.by_length) for batch in batches) > 1
    for batch in batches:
        rows = [row for part in batch.by_length for row in rows_of(part)]
        assert sorted(rows) == sorted(rows_of(batch))
        assert sum(part.n_targets for part in batch.by_length) == batch.n_targets
        assert sum(part.source.numel() for part in batch.by_length) <= batch.source.numel()


def rows_of(batch: TranslationBatch) -> list[tuple[object, ...]]:
    return [
        (
            int(batch.indices[row]),
            *batch.source[row, : batch.source_lengths[row]].tolist(),
            *batch.target_input[row, : batch.target_lengths[row]].tolist(),
            *batch.target_output[row, : batch.target_lengths[row]].tolist(),
        )
        for row in range(len(batch))
    ]

"""What a batch holds."""

import torch

from data.batches import translation_batch


def test_a_batch_by_hand() -> None:
    batch = translation_batch([([5, 6], [7, 8, 9]), ([4], [4])], [3, 0])
    assert batch.source.tolist() == [[5, 6, 2], [4, 2, 0]]
    assert batch.target_input.tolist() == [[1, 7, 8, 9], [1, 4, 0, 0]]
    assert batch.target_output.tolist() == [[7, 8, 9, 2], [4, 2, 0, 0]]
    assert batch.source_lengths.tolist() == [3, 2]
    assert batch.target_lengths.tolist() == [4, 2]
    assert batch.indices.tolist() == [3, 0]
    assert len(batch) == 2


def test_a_batch_moves_whole() -> None:
    batch = translation_batch([([5], [6])], [0]).to("meta")
    assert {tensor.device.type for tensor in batch.tensors.values()} == {"meta"}
    assert batch.source.dtype == torch.long

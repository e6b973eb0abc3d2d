"""Windows of a stream: every token scored once, whatever the stride."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from data.batches import PAD_ID
from data.windows import Windows


def test_windows_that_do_not_overlap_by_hand() -> None:
    windows = Windows(torch.tensor([1, 5, 6, 7, 8, 9]), length=3, stride=3)
    batch = windows[[0, 1]]
    assert len(windows) == 2
    assert batch.input.tolist() == [[1, 5, 6], [7, 8, PAD_ID]]
    assert batch.output.tolist() == [[5, 6, 7], [8, 9, PAD_ID]]
    assert batch.loss_mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.lengths.tolist() == [3, 2]
    assert batch.prompt_lengths.tolist() == [1, 1]
    assert batch.indices.tolist() == [0, 1]


def test_sliding_windows_by_hand() -> None:
    windows = Windows(torch.tensor([1, 5, 6, 7, 8, 9]), length=3, stride=1)
    batch = windows[[2, 0]]
    assert len(windows) == 3
    assert batch.input.tolist() == [[6, 7, 8], [1, 5, 6]]
    assert batch.output[batch.loss_mask].tolist() == [9, 5, 6, 7]
    assert batch.prompt_lengths.tolist() == [3, 1]


@given(
    st.integers(1, 60).flatmap(
        lambda length: st.tuples(st.just(length), st.integers(1, length), st.integers(1, 80))
    )
)
def test_every_token_is_scored_once_behind_its_context(sizes: tuple[int, int, int]) -> None:
    length, stride, n_targets = sizes
    stream = torch.arange(100, 101 + n_targets)
    windows = Windows(stream, length=length, stride=stride)
    batch = windows[list(range(len(windows)))]
    real = batch.input != PAD_ID
    assert torch.equal(batch.output[real], batch.input[real] + 1)
    assert real.sum(1).tolist() == batch.lengths.tolist()
    assert batch.output[batch.loss_mask].tolist() == stream[1:].tolist()
    assert batch.loss_mask.any(1).all()
    for row in range(1, len(batch)):
        assert int(batch.loss_mask[row].nonzero()[0]) == length - stride
        assert int(batch.prompt_lengths[row]) == length - stride + 1

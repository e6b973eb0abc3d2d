"""Operations are those counted by hand, and memory is that of the run."""

import pytest
import torch

from ablations.config import config_from_flat
from ablations.cost import CountFlops, PeakMemory
from ablations.ledger import load
from ablations.run import run_cell
from data.batches import translation_batch
from lightning_modules.costs import encoder_decoder_flops
from lightning_modules.design import Dims
from lightning_modules.losses import loss_and_hits
from lightning_modules.translation import TranslationModule
from tests.ablations.tiny import tiny

DIMS = Dims(d_model=16, n_heads=2, d_ff=32, n_encoder_layers=2, n_decoder_layers=1, dropout=0.0)


class Values:
    """A batch that only says how many targets it has."""

    def __init__(self, n_targets: int) -> None:
        self.n_targets = n_targets


def counted(step, *, n_targets: int) -> int:
    counter, batch = CountFlops(), Values(n_targets)
    counter.on_validation_batch_start(None, None, batch)
    with torch.no_grad():
        step()
    counter.on_validation_batch_end(None, None, None, batch)
    step()
    return counter.per_target


@pytest.mark.parametrize("mask", ["minus_inf", "minus_1e9"], ids=["fused", "explicit"])
def test_operations_of_a_pair_are_those_of_its_config(mask):
    design = config_from_flat({"design.mask": mask}).design
    module = TranslationModule(vocabulary_size=50, design=design, dims=DIMS)
    batch = translation_batch([([5] * 7, [6] * 9)], [0])

    def step():
        states, targets = module.states_and_targets(batch)
        loss_and_hits(states, module.output_weight, targets)

    known = encoder_decoder_flops(
        design, DIMS, vocabulary_size=50, source_length=8, target_length=10
    )
    assert counted(step, n_targets=10) == round(known / 10)


def test_operations_of_a_recurrent_network_count():
    network = torch.nn.LSTM(8, 16, 2, batch_first=True)
    by_hand = 2 * 3 * 20 * 4 * 16 * (8 + 16 + 16 + 16)
    assert counted(lambda: network(torch.randn(3, 20, 8)), n_targets=1) == by_hand


def test_the_peak_is_that_of_what_came_after():
    before = torch.zeros(2**24)  # 64 MiB
    del before
    memory = PeakMemory()
    start = memory.bytes()
    if start is None:
        pytest.skip("this system doesn't begin the count anew")
    held = torch.ones(2**25)
    assert memory.bytes() - start > 0.9 * 4 * len(held)
    peak = memory.bytes()
    del held
    assert memory.bytes() == pytest.approx(peak, abs=2**22)  # the kernel counts in steps
    assert PeakMemory().bytes() < peak - 2**26


def test_a_run_records_both_and_the_ledger_reads_them(tmp_path):
    config = tiny(budget__max_steps=2, budget__validate_every=2)
    record = run_cell(config, runs_dir=tmp_path, cache_dir=tmp_path / ".cache")
    assert record["flops_per_target"] > record["parameters"]
    assert record["peak_memory_bytes"] > 2**20
    frame = load(tmp_path).frame
    assert set(frame["flops_per_target"]) == {record["flops_per_target"]}
    assert set(frame["peak_memory_bytes"]) == {record["peak_memory_bytes"]}

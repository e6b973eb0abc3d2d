"""The models under torch.compile and under data parallelism on two processes."""

from pathlib import Path

import pytest
import torch
import torch.distributed
from torch import nn
from torch.multiprocessing import spawn
from torch.nn.parallel import DistributedDataParallel

from lightning_modules.axes.positions import Position
from lightning_modules.design import Design
from lightning_modules.layers import Attention
from lightning_modules.masks import AttentionMask
from lightning_modules.transformer import Stack
from tests.lightning_modules.designs import ALL_LEVELS, TINY, alone, build, name, tokens

LENGTHS = torch.tensor([6, 4])


# Dynamo looks at gradients that no tensor of ours has, and is warned by torch.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("position", [Position.alibi, Position.relative])
@torch.no_grad()
def test_compiled_is_eager_at_growing_lengths(position: Position) -> None:
    """For the two schemes whose bias has the shape of the input.

    Without dropout, that is: a compiled run draws other dropout than an eager one.
    """
    torch.manual_seed(0)
    stack = Stack(Design(position=position), TINY, n_layers=1, causal=True).double().eval()
    compiled = torch.compile(stack, backend="aot_eager", dynamic=True)
    for length in (3, 5, 9, 14, 20):
        x = torch.randn(2, length, 16, dtype=torch.double)
        eager, fast = (each(x, mask=AttentionMask(causal=True)) for each in (stack, compiled))
        assert fast.isfinite().all()
        torch.testing.assert_close(fast, eager)
    torch.compiler.reset()


def test_a_mask_that_hides_nothing_is_no_mask() -> None:
    torch.manual_seed(0)
    attention = Attention(Design(), TINY, n_branches=1).double()
    x = torch.randn(2, 5, 16, dtype=torch.double)
    everything = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    with_mask = attention(x, mask=AttentionMask(keep=everything))
    torch.testing.assert_close(with_mask, attention(x, mask=AttentionMask()))


def two_updates(rank: int, meeting_point: str) -> None:
    """Train every level for two updates; a parameter that gets no gradient stops the second."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=2
    )
    for axis, level in ALL_LEVELS:
        model = DistributedDataParallel(build(alone(axis, level)).train())
        for step in range(2):
            states = model(tokens(2, 6, seed=rank), LENGTHS, tokens(2, 5, seed=step))
            model.module.logits(states).logsumexp(-1).sum().backward()
        gradients = nn.utils.parameters_to_vector(p.grad for p in model.parameters())
        others = [torch.empty_like(gradients) for _ in range(2)]
        torch.distributed.all_gather(others, gradients)
        assert torch.equal(*others), name(alone(axis, level))
    torch.distributed.destroy_process_group()


def test_every_level_trains_on_two_processes(tmp_path: Path) -> None:
    spawn(two_updates, args=(str(tmp_path / "meeting_point"),), nprocs=2)

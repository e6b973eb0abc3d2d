"""What attention keeps in memory, by the length of its input."""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from lightning_modules.design import Design, Dims
from lightning_modules.layers import Attention
from lightning_modules.masks import AttentionMask
from lightning_modules.placement import Placement


def attention_memory(
    design: Design, dims: Dims, *, length: int, explicit: bool, device: str = "cpu"
) -> int:
    """Bytes that one causal layer of self-attention needs in training, for one row of `length`.

    On a GPU the peak that is allocated during the forward and backward pass. On a CPU, where torch
    keeps no such count, what the forward pass keeps for the backward pass, parameters left out.
    `explicit` asks for the path that computes the weights; without it the design decides.
    """
    dims = dataclasses.replace(dims, max_length=max(dims.max_length, length))
    layer = Attention(design, dims, n_branches=1).to(device)
    layer.observer = _look_away if explicit else None
    scheme = design.position(design, dims, causal=True).to(device)
    injection = design.position_injection(dims).to(device) if scheme.has_vectors else None
    placement = Placement.of(scheme, injection, start=0, length=length, device=torch.device(device))
    x = torch.randn(1, length, dims.d_model, device=device, requires_grad=True)
    known = {tensor.data_ptr() for tensor in (*layer.parameters(), *scheme.parameters())}

    def run() -> Tensor:
        return layer(x, mask=AttentionMask(causal=True), placement=placement).sum()

    return _peak(run) if x.is_cuda else _kept(run, known)


def _look_away(scores: Tensor, allowed: Tensor | None, weights: Tensor) -> None:
    """Keep nothing: looking alone makes attention explicit."""


def _kept(run: Callable[[], Tensor], known: set[int]) -> int:
    """Bytes of the different storages kept for the backward pass, those that are known left out."""
    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run()
    return sum(sizes.values())


def _peak(run: Callable[[], Tensor]) -> int:
    """Bytes allocated on the GPU at the peak of both passes, beyond what was there before."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run().backward()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before

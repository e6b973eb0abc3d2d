"""Dropout whose masks are cheap on a CPU, too."""

import torch
from torch import Tensor, nn

STEPS = 2**16  # from rate 0 to rate 1


class Dropout(nn.Dropout):
    """Each number zeroed with probability `p`, the others divided by 1 - `p` (Srivastava 2014).

    As PyTorch's, and as there the masks are a function of torch's generator alone. On a CPU `p`
    counts as its nearest multiple of 1/65536 below 1.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map any shape to the same shape."""
        if not self.training or self.p == 0 or not x.is_cpu:
            return super().forward(x)
        dropped = min(round(self.p * STEPS), STEPS - 1)
        # PyTorch draws a number for each element. Here 64 random bits do for four of them.
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        draws = bits.view(torch.int16)[: x.numel()].view(x.shape)
        kept = draws >= dropped - STEPS // 2
        return x * kept.to(x.dtype).div_(1 - dropped / STEPS)

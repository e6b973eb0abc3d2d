"""What a run costs besides time: operations of its model, and the most memory it held."""

from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

_PROC = Path("/proc/self")


class CountFlops(Callback):
    """Counts the floating-point operations of one forward pass, over the first validation batch.

    A multiplication and its addition count as 2; counted are matrix products, padding included
    (Kaplan et al. 2020, section 2.1, count the same ones by hand).

    Attributes:
        per_target: operations by target token, or by value of a forecast; None before a validation.
    """

    def __init__(self) -> None:
        self.per_target: int | None = None
        self._counter: FlopCounterMode | None = None

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: Any
    ) -> None:
        """Begin to count at the first batch."""
        if self.per_target is None:
            self._counter = FlopCounterMode(display=False, custom_mapping=_FURTHER)
            self._counter.__enter__()

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        """Stop counting."""
        if self._counter is not None:
            self._counter.__exit__(None, None, None)
            self.per_target = round(self._counter.get_total_flops() / batch.n_targets)
            self._counter = None


class PeakMemory:
    """The most memory held since this was made.

    On a GPU, what was allocated there. On a CPU, all that the process held, its libraries and
    what it keeps from earlier runs included.
    """

    def __init__(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
            return
        try:
            (_PROC / "clear_refs").write_text("5")  # begins the count of VmHWM anew
            self._counted = True
        except OSError:
            self._counted = False

    def bytes(self) -> int | None:
        """The peak so far; None where the system doesn't count it."""
        if torch.cuda.is_available():
            return torch.cuda.max_memory_allocated()
        if not self._counted:
            return None
        status = (_PROC / "status").read_text()
        kibibytes = next(line.split()[1] for line in status.splitlines() if "VmHWM" in line)
        return 1024 * int(kibibytes)


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(query, key, value)


def _recurrent_flops(x: Any, *weights: Any, **_: Any) -> int:
    """Of one layer: every step of every row goes through its two matrices."""
    return _steps_through(x, weights[:2])


def _all_recurrent_flops(x: Any, weights: Any, *_: Any, **__: Any) -> int:
    return _steps_through(x, [shape for shape in weights if len(shape) == 2])


def _steps_through(x: Any, matrices: Any) -> int:
    return sum(2 * x[0] * x[1] * rows * columns for rows, columns in matrices)


# What torch's own count leaves out, by operation, from the shapes of its arguments.
_FURTHER = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
    torch.ops.aten.mkldnn_rnn_layer: _recurrent_flops,
    torch.ops.aten._cudnn_rnn: _all_recurrent_flops,
}

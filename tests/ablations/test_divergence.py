"""A divergence is found an update later, and at the update where it was."""

from types import SimpleNamespace

import pytest
import torch

from ablations.divergence import Divergence


def test_divergence_at_the_last_update_and_across_a_restart() -> None:
    trainer = SimpleNamespace(global_step=3, should_stop=False)
    at_the_end, before, after = (Divergence(bound=1.0) for _ in range(3))
    for each in (at_the_end, before):
        each.on_train_batch_end(trainer, None, {"mean_loss": torch.tensor(2.0)})
    at_the_end.on_train_end(trainer, None)
    assert at_the_end.step == 3
    after.load_state_dict(before.state_dict())
    trainer.global_step = 4
    after.on_train_batch_end(trainer, None, {"mean_loss": torch.tensor(0.5)})
    assert after.step == 3
    assert trainer.should_stop


def test_a_gpu_is_waited_for_until_the_micro_batch_before_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    class Loss:
        """On a GPU, as far as anybody sees."""

        is_cuda = True

        def __init__(self, name: str) -> None:
            self.name = name

        def to(self, device: str, *, non_blocking: bool) -> torch.Tensor:
            assert (device, non_blocking) == ("cpu", True)
            done.append(f"copy {self.name}")
            return torch.tensor(2.0)

    def record_event() -> SimpleNamespace:
        name = done[-1].split()[1]
        return SimpleNamespace(synchronize=lambda: done.append(f"wait for {name}"))

    stream = SimpleNamespace(record_event=record_event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    divergence, trainer = Divergence(bound=1.0), SimpleNamespace(global_step=1, should_stop=False)
    for name in "ab":
        divergence.on_train_batch_end(trainer, None, {"mean_loss": Loss(name)})
    assert done == ["copy a", "wait for a", "copy b"]
    assert divergence.step == 1

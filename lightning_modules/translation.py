"""Translation as a LightningModule, for anybody's Trainer."""

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor

from data.batches import PAD_ID, TranslationBatch
from lightning_modules.decoding import beam_search, greedy_search
from lightning_modules.design import Design, Dims, violated
from lightning_modules.losses import loss_and_hits, projected_cross_entropy
from lightning_modules.optimization import Optim, configure
from lightning_modules.transformer import EncoderDecoder


class TranslationModule(pl.LightningModule):
    """An encoder-decoder trained on sentence pairs.

    Losses are in nats per target token, the end of the sentence included, padding not.

    Args:
        vocabulary_size: entries of the joint vocabulary.
        design: the choices.
        dims: the sizes.
        optim: how it is trained.
        max_steps: updates of the whole training, which the schedule needs to know.
        beam_size: hypotheses kept while predicting; 1 is greedy.
        length_penalty: exponent of the length in a hypothesis' score.

    Raises:
        ValueError: the combination violates a constraint; the message names it.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        design: Design = Design(),
        dims: Dims = Dims(),
        optim: Optim = Optim(),
        max_steps: int = 1000,
        beam_size: int = 1,
        length_penalty: float = 1.0,
    ) -> None:
        super().__init__()
        if problems := violated(design, dims, optim):
            raise ValueError("; ".join(problems))
        self.optim, self.max_steps = optim, max_steps
        self.n_targets = 0
        self.beam_size, self.length_penalty = beam_size, length_penalty
        self.model = EncoderDecoder(vocabulary_size, design=design, dims=dims)
        self.longest: int | None = self.model.decoder.position.longest

    def training_step(self, batch: TranslationBatch, batch_index: int) -> Tensor:
        """The smoothed loss of a micro-batch, summed over its targets.

        Micro-batches differ in their number of targets, so the mean is taken once, over all
        targets of an update, in `on_before_optimizer_step`.
        """
        states, targets = self._states(batch)
        total = projected_cross_entropy(
            states, self.model.output_weight, targets, label_smoothing=self.optim.label_smoothing
        )
        self.n_targets += len(targets)
        self.log("train/loss", total.detach() / len(targets), batch_size=len(targets))
        return total

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Turn summed gradients into those of the mean over the update's targets, on all ranks."""
        n_targets = self.trainer.strategy.reduce(
            torch.tensor(float(self.n_targets), device=self.device), reduce_op="sum"
        )
        # Lightning has divided each loss by the accumulation, and averages gradients over ranks.
        factor = self.trainer.accumulate_grad_batches * self.trainer.world_size / n_targets
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        torch._foreach_mul_(gradients, factor)
        self.n_targets = 0

    def validation_step(self, batch: TranslationBatch, batch_index: int) -> None:
        """Log loss and accuracy under teacher forcing."""
        self._evaluate(batch, "validation")

    def test_step(self, batch: TranslationBatch, batch_index: int) -> None:
        """Log loss and accuracy under teacher forcing."""
        self._evaluate(batch, "test")

    def predict_step(self, batch: TranslationBatch, batch_index: int = 0) -> list[list[int]]:
        """Translate: token ids of each row, without special tokens, in the batch's order."""
        if self.beam_size == 1:
            return greedy_search(
                self.model, batch.source, batch.source_lengths, longest=self.longest
            )
        return beam_search(
            self.model,
            batch.source,
            batch.source_lengths,
            beam_size=self.beam_size,
            length_penalty=self.length_penalty,
            longest=self.longest,
        )

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """AdamW with the schedule stepped at every update."""
        return configure(self, self.optim, max_steps=self.max_steps)

    def _states(self, batch: TranslationBatch) -> tuple[Tensor, Tensor]:
        """Decoder states `(targets, width)` and token ids `(targets,)` at real positions."""
        states = self.model(
            batch.source, batch.source_lengths, batch.target_input, batch.target_lengths
        )
        real = batch.target_output != PAD_ID
        return states[real], batch.target_output[real]

    @torch.no_grad()
    def _evaluate(self, batch: TranslationBatch, split: str) -> None:
        states, targets = self._states(batch)
        loss, hits = loss_and_hits(states, self.model.output_weight, targets)
        values = {f"{split}/loss": loss / len(targets), f"{split}/accuracy": hits / len(targets)}
        # Weighted by targets, so that the mean is over tokens however they are batched.
        self.log_dict(values, batch_size=len(targets), sync_dist=True)

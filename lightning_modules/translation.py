"""Translation as a LightningModule, for anybody's Trainer."""

import torch
from torch import Tensor

from data.batches import TranslationBatch
from lightning_modules.decoding import beam_search, greedy_search
from lightning_modules.design import Design, Dims
from lightning_modules.optimization import Optim
from lightning_modules.supervised import TokenModule
from lightning_modules.transformer import EncoderDecoder


class TranslationModule(TokenModule):
    """An encoder-decoder trained on pairs of sequences, the end of the target included.

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
        super().__init__(design=design, dims=dims, optim=optim, max_steps=max_steps)
        self.beam_size, self.length_penalty = beam_size, length_penalty
        self.mixes_rows = bool(design.mixing_level)
        self.model = EncoderDecoder(vocabulary_size, design=design, dims=dims)

    def states_and_targets(self, batch: TranslationBatch) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Decoder states `(targets, width)` and token ids `(targets,)` at real positions."""
        parts = (batch,) if self.mixes_rows else batch.by_length
        states = [part.at_targets(self._states(part)) for part in parts]
        targets = [part.at_targets(part.target_output) for part in parts]
        return torch.cat(states), torch.cat(targets)

    def _states(self, batch: TranslationBatch) -> Tensor:
        return self.model(
            batch.source, batch.source_lengths, batch.target_input, batch.target_lengths
        )

    def predict_step(self, batch: TranslationBatch, batch_index: int = 0) -> list[list[int]]:
        """Translate: token ids of each row, without special tokens, in the batch's order."""
        sources, longest = (batch.source, batch.source_lengths), self.model.decoder.position.longest
        if self.beam_size == 1:
            return greedy_search(self.model, *sources, longest=longest)
        return beam_search(
            self.model,
            *sources,
            beam_size=self.beam_size,
            length_penalty=self.length_penalty,
            longest=longest,
        )

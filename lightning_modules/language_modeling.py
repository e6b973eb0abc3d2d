"""A decoder-only model as a LightningModule: prompted sequences, or running text."""

import torch
from torch import Tensor

from data.batches import EOS_ID, SequenceBatch
from lightning_modules.cache import Cache
from lightning_modules.continuation import DecoderContinuation
from lightning_modules.design import Design, Dims
from lightning_modules.losses import each_loss_and_hit
from lightning_modules.optimization import Optim
from lightning_modules.sampling import GREEDY, Sampling, generate
from lightning_modules.supervised import TokenModule, over_ranks
from lightning_modules.transformer import DecoderOnly

OCTAVES = 32  # ranges of positions 1, 2, 3 to 4, 5 to 8, ...: more than any row has


class LanguageModelingModule(TokenModule):
    """A decoder trained to predict the next token where a batch's `loss_mask` says so.

    Args:
        vocabulary_size: entries of the vocabulary.
        design: the choices.
        dims: the sizes; `n_decoder_layers` counts the blocks.
        optim: how it is trained.
        max_steps: updates of the whole training, which the schedule needs to know.
        sampling: how tokens are chosen while predicting.

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
        sampling: Sampling = GREEDY,
    ) -> None:
        super().__init__(design=design, dims=dims, optim=optim, max_steps=max_steps)
        self.sampling = sampling
        self.model = DecoderOnly(vocabulary_size, design=design, dims=dims)

    def states_and_targets(self, batch: SequenceBatch) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """States `(targets, width)` and token ids `(targets,)` where the loss counts."""
        states = self.model(batch.input, batch.lengths)
        return batch.at_targets(states), batch.at_targets(batch.output)

    def predict_step(self, batch: SequenceBatch, batch_index: int = 0) -> list[list[int]]:
        """Go on with each row's prompt: token ids without special tokens, in the batch's order.

        As many tokens as the row has targets, and ten more, are written at most.
        """
        longest = int((batch.lengths - batch.prompt_lengths).max()) + 10
        if (limit := self.model.decoder.position.longest) is not None:
            # The last token written is never read, so it may stand one beyond the limit.
            longest = min(longest, limit - int(batch.prompt_lengths.max()) + 1)
        return self._go_on(batch, longest=longest, end=EOS_ID)

    def _go_on(self, batch: SequenceBatch, *, longest: int, end: int | None) -> list[list[int]]:
        return generate(
            DecoderContinuation(self._step, n_layers=len(self.model.decoder.blocks)),
            batch.input[:, : int(batch.prompt_lengths.max())],
            prompt_lengths=batch.prompt_lengths,
            longest=longest,
            sampling=self.sampling,
            end=end,
        )

    def _step(self, tokens: Tensor, cache: Cache | None) -> Tensor:
        return self.model.logits(self.model(tokens, cache=cache))


class TextModule(LanguageModelingModule):
    """A decoder for running text: nothing ends a row, and losses are told apart by position.

    At the end of a test it logs, as `test/loss_at_64`, the mean loss at positions 33 to 64 of the
    rows. Positions count the tokens that a prediction sees, from 1; the other bounds are powers of
    2, too.
    """

    def on_test_epoch_start(self) -> None:
        """Forget the losses by position of an earlier test."""
        # Loss and targets of each range of positions: another process may see others.
        self.by_octave = torch.zeros(2, OCTAVES, device=self.device)

    def test_step(self, batch: SequenceBatch, batch_index: int) -> None:  # type: ignore[override]
        """Log loss and accuracy, and add up the losses by position."""
        states, targets = self.states_and_targets(batch)
        losses, hits = each_loss_and_hit(states, self.output_weight, targets)
        values = {"test/loss": losses.mean(), "test/accuracy": hits.float().mean()}
        self.log_means(values, n_targets=len(targets))
        positions = batch.loss_mask.nonzero()[:, 1]  # from 0: 0 | 1 | 2, 3 | 4 to 7 | ...
        octaves = torch.frexp(positions.float()).exponent.long()
        both = torch.stack((losses.float(), torch.ones_like(losses, dtype=torch.float32)))
        self.by_octave += torch.zeros_like(self.by_octave).index_add_(1, octaves, both)

    def on_test_epoch_end(self) -> None:
        """Log the losses by position, over all processes."""
        sums, counts = over_ranks(self.by_octave).tolist()
        means = {2**octave: sums[octave] / n for octave, n in enumerate(counts) if n}
        self.log_dict({f"test/loss_at_{end}": mean for end, mean in means.items()})

    def predict_step(self, batch: SequenceBatch, batch_index: int = 0) -> list[list[int]]:
        """Go on with each row's prompt by as many tokens as the row has targets."""
        n_targets = int((batch.lengths - batch.prompt_lengths).max()) + 1
        return self._go_on(batch, longest=n_targets, end=None)

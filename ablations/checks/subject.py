"""The model that is checked, variants of it, and inputs for them."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ablations.config import RunConfig
from lightning_modules.axes.injection import PositionInjection, RopeScaling
from lightning_modules.axes.positions import Position
from lightning_modules.design import Design, violated
from lightning_modules.masks import AttentionMask, real_positions
from lightning_modules.probes import States
from lightning_modules.transformer import EncoderDecoder

VOCABULARY, LENGTH = 1000, 12
STIR = 0.5


class Subject:
    """The encoder-decoder of a config, freshly built, with random tokens to read.

    Args:
        config: design, sizes and seed are read. The token table has 1,000 rows whatever the data.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        # A table that is too short for the inputs of the checks grows; nothing else depends on it.
        self.dims = replace(config.dims, max_length=max(config.dims.max_length, LENGTH))
        self.source_lengths = torch.tensor([LENGTH, 9, 6, 3])
        self.target_lengths = torch.tensor([LENGTH, 8, 5, 2])
        self.source, self.target = self._tokens(), self._tokens(seed=1)

    def design(self, **changes: Any) -> Design:
        """The design with other levels. Where positions change, what acts on them is taken back."""
        if "position" in changes:
            changes = {
                "position_injection": PositionInjection.add,
                "rope_scaling": RopeScaling.none,
                **changes,
            }
        return replace(self.config.design, **changes)

    def without_positions(self) -> Design:
        """The design without positions."""
        return self.design(position=Position.none)

    def is_legal(self, design: Design) -> bool:
        """Whether no constraint forbids it at the sizes of the config."""
        return not violated(design, self.dims, self.config.optim)

    def model(
        self, design: Design | None = None, *, stirred: bool = False, **dims: Any
    ) -> EncoderDecoder:
        """A model in double precision and evaluation mode, with the config's seed.

        Args:
            design: another design than the config's.
            stirred: add noise to all parameters, so that none is zero, as after some training.
            dims: other sizes.
        """
        torch.manual_seed(self.config.seed)
        model = EncoderDecoder(
            VOCABULARY, design=design or self.config.design, dims=replace(self.dims, **dims)
        )
        model = model.double().eval()
        if stirred:
            with torch.no_grad():
                for parameter in model.parameters():
                    noise = torch.randn_like(parameter)
                    parameter.add_(noise, alpha=STIR * self.dims.d_model**-0.5)
        return model

    def run(self, model: EncoderDecoder) -> Tensor:
        """States `(4, 12, width)` of the padded batch."""
        return model(self.source, self.source_lengths, self.target, self.target_lengths)

    def vectors(self, *, length: int = LENGTH, seed: int = 0) -> Tensor:
        """Normal random vectors `(4, length, d_model)` in place of embeddings."""
        generator = torch.Generator().manual_seed(self.config.seed + seed)
        return torch.randn(4, length, self.dims.d_model, generator=generator, dtype=torch.double)

    def _tokens(self, *, seed: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(self.config.seed + seed)
        return torch.randint(4, VOCABULARY, (4, LENGTH), generator=generator)

    def encoder_states(self, model: EncoderDecoder, *, padded: bool = False) -> States:
        """The encoder, from vectors to states; `padded` with the source's lengths."""
        lengths = self.source_lengths if padded else None
        mask = (
            AttentionMask.from_lengths(self.source_lengths, LENGTH) if padded else AttentionMask()
        )
        return partial(model.encoder, mask=mask, lengths=lengths)

    def decoder_states(self, model: EncoderDecoder, *, padded: bool = False) -> States:
        """The decoder, from vectors to states, with the memory of the source."""
        with torch.no_grad():
            memory, memory_mask = model.encode(self.source, self.source_lengths)
        causal, lengths = model.decodes_causally, self.target_lengths if padded else None
        mask = AttentionMask(causal=causal)
        if padded:
            mask = AttentionMask.from_lengths(self.target_lengths, LENGTH, causal=causal)
        return partial(
            model.decoder, mask=mask, lengths=lengths, memory=memory, memory_mask=memory_mask
        )

    @property
    def real_source(self) -> Tensor:
        """Where the source is no padding, `(4, 12)`."""
        return real_positions(self.source_lengths, LENGTH)

    @property
    def real_target(self) -> Tensor:
        """Where the target is no padding, `(4, 12)`."""
        return real_positions(self.target_lengths, LENGTH)

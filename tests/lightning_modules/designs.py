"""What the tests build: tiny models of every design, found from `AXES`."""

import itertools

import torch

from lightning_modules.design import AXES, Design, Dims
from lightning_modules.transformer import EncoderDecoder

TINY = Dims(
    d_model=16,
    n_heads=4,
    d_ff=32,
    n_encoder_layers=2,
    n_decoder_layers=2,
    dropout=0.0,
    max_length=64,
)
VOCABULARY = 37

ALL_DESIGNS = [
    Design(**dict(zip(AXES, levels, strict=True))) for levels in itertools.product(*AXES.values())
]
ALL_LEVELS = [(axis, level) for axis, levels in AXES.items() for level in levels]


def name(design: Design) -> str:
    """A readable test id."""
    return "-".join(getattr(design, axis).name for axis in AXES)


def broken(design: Design) -> set[str]:
    """The invariances that some level of this design is known to violate."""
    return set().union(*(getattr(design, axis).value.breaks for axis in AXES))


def build(design: Design, *, dims: Dims = TINY, seed: int = 0) -> EncoderDecoder:
    """A model in double precision and evaluation mode."""
    torch.manual_seed(seed)
    return EncoderDecoder(VOCABULARY, design=design, dims=dims).double().eval()


def tokens(rows: int, length: int, *, seed: int = 0) -> torch.Tensor:
    """Random ordinary tokens `(rows, length)`."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, VOCABULARY, (rows, length), generator=generator)

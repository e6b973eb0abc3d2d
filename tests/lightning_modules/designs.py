"""What the tests build: tiny models of designs found from `AXES`."""

import itertools
import random
from collections.abc import Iterable
from functools import cache

import torch

from lightning_modules.axis import Axis
from lightning_modules.design import AXES, Design, Dims, violated
from lightning_modules.optimization import Optim
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
IN_TRAINING = {"batch_independence", "training_causality"}
CANDIDATES = 30

Choice = tuple[str, Axis]
ALL_LEVELS: list[Choice] = [(axis, level) for axis, levels in AXES.items() for level in levels]


def legal(design: Design) -> bool:
    """Whether no constraint forbids it."""
    return not violated(design, TINY, Optim())


def alone(axis: str, level: Axis) -> Design:
    """The baseline with one other level, and what that level needs."""
    return next(design for design in _completions([(axis, level)]) if legal(design))


def _completions(choices: list[Choice]) -> Iterable[Design]:
    """The baseline with these levels, then with each position scheme that may be needed."""
    yield Design(**dict(choices))
    for scheme in AXES["position"]:
        yield Design(**{"position": scheme, **dict(choices)})


def possible_pairs() -> set[frozenset[Choice]]:
    """Every two levels of different axes that the constraints allow together."""
    return {
        frozenset(pair)
        for pair in itertools.combinations(ALL_LEVELS, 2)
        if pair[0][0] != pair[1][0] and any(map(legal, _completions(list(pair))))
    }


@cache
def pairwise_cover() -> list[Design]:
    """Few legal designs, in which every possible pair of levels stands side by side."""
    generator, left, cover = random.Random(0), possible_pairs(), [Design()]
    left -= _pairs(Design())
    while left:
        wanted = dict(sorted(min(left, key=_names), key=str))
        found = [next(filter(legal, _completions(list(wanted.items()))))]
        found += (_random_design(wanted, generator) for _ in range(CANDIDATES))
        best = max(filter(legal, found), key=lambda design: len(_pairs(design) & left))
        cover.append(best)
        left -= _pairs(best)
    return cover


def _names(pair: frozenset[Choice]) -> list[str]:
    return sorted(f"{axis}.{level}" for axis, level in pair)


def _random_design(wanted: dict[str, Axis], generator: random.Random) -> Design:
    """A random design with these levels; axes go back to the baseline until it is legal."""
    free = {axis: generator.choice(list(levels)) for axis, levels in AXES.items()}
    axes = [axis for axis in AXES if axis not in wanted]
    generator.shuffle(axes)
    design = Design(**{**free, **wanted})
    while axes and not legal(design):
        axis = axes.pop()
        free[axis] = next(iter(AXES[axis]))
        design = Design(**{**free, **wanted})
    return design


def _pairs(design: Design) -> set[frozenset[Choice]]:
    choices = list(vars(design).items())
    return {frozenset(pair) for pair in itertools.combinations(choices, 2)}


CARD_AXES = ("position", "mask", "norm_position")
CARD_PRODUCT = [
    Design(**dict(zip(CARD_AXES, levels, strict=True)))
    for levels in itertools.product(*(AXES[axis] for axis in CARD_AXES))
]
ALL_DESIGNS = list(dict.fromkeys([*CARD_PRODUCT, *pairwise_cover()]))


def name(design: Design) -> str:
    """A readable test id: what differs from the baseline."""
    changed = [f"{a}={level}" for a, level in vars(design).items() if level != vars(Design())[a]]
    return ",".join(changed) or "baseline"


def broken(design: Design, *, in_training: bool = False) -> set[str]:
    """The invariances that some level of this design is known to violate."""
    breaks = set().union(*(getattr(design, axis).value.breaks for axis in AXES))
    return breaks if in_training else breaks - IN_TRAINING


def build(design: Design, *, dims: Dims = TINY, seed: int = 0) -> EncoderDecoder:
    """A model in double precision and evaluation mode, none of whose parameters is zero."""
    torch.manual_seed(seed)
    model = EncoderDecoder(VOCABULARY, design=design, dims=dims).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.15 * torch.randn_like(parameter)
    return model


def tokens(rows: int, length: int, *, seed: int = 0) -> torch.Tensor:
    """Random ordinary tokens `(rows, length)`."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, VOCABULARY, (rows, length), generator=generator)

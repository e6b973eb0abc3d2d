"""How a language model goes on with a prompt: every level is measured in each run."""

from functools import partial

from lightning_modules.axis import Axis, Level
from lightning_modules.sampling import Sampling


class Strategy(Axis):
    """How a text is continued, every level in each run: `level() -> Sampling`."""

    greedy = Level(Sampling, "the most probable token, always", "Holtzman et al. 2020")
    temperature_0_1 = Level(
        partial(Sampling, temperature=0.1),
        "drawn at temperature .1: nearly greedy",
        "Ackley et al. 1985, for the temperature",
    )
    temperature_0_8 = Level(
        partial(Sampling, temperature=0.8), "drawn at temperature .8", "a usual default"
    )
    temperature_1_0 = Level(
        partial(Sampling, temperature=1.0),
        "drawn from the model's own distribution",
        "Holtzman et al. 2020, pure sampling",
    )
    temperature_1_5 = Level(
        partial(Sampling, temperature=1.5),
        "drawn at temperature 1.5: improbable tokens gain",
        "Ackley et al. 1985, for the temperature",
    )
    top_k = Level(
        partial(Sampling, temperature=1.0, top_k=10),
        "drawn from the 10 most probable tokens",
        "Fan et al. 2018, with k = 10",
    )
    top_p = Level(
        partial(Sampling, temperature=1.0, top_p=0.95),
        "drawn from the fewest tokens that reach probability .95",
        "Holtzman et al. 2020, eq. 2, with .95",
    )
    no_repeat_ngram = Level(
        partial(Sampling, no_repeat_ngram=3),
        "the most probable token that completes no trigram again",
        "Paulus et al. 2018, section 2.5",
    )

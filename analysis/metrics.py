"""The metrics that a run measures, and how each is read."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """How a metric is read: which direction is good (None: neither), and how many decimals."""

    higher_is_better: bool | None
    decimals: int

    @property
    def direction(self) -> str:
        """Which direction is good, in words."""
        if self.higher_is_better is None:
            return "neither direction is better"
        return f"{'higher' if self.higher_is_better else 'lower'} is better"


METRICS = {
    "bleu": Metric(higher_is_better=True, decimals=2),
    "bleu_lowercase_tokenized": Metric(higher_is_better=True, decimals=2),
    "chrf": Metric(higher_is_better=True, decimals=2),
    "accuracy": Metric(higher_is_better=True, decimals=4),
    "loss": Metric(higher_is_better=False, decimals=4),
    "mse": Metric(higher_is_better=False, decimals=4),
    "mae": Metric(higher_is_better=False, decimals=4),
    "mse_original": Metric(higher_is_better=False, decimals=4),
    "mae_original": Metric(higher_is_better=False, decimals=4),
    "exact_match": Metric(higher_is_better=True, decimals=4),
    "token_accuracy": Metric(higher_is_better=True, decimals=4),
    "sentences": Metric(higher_is_better=True, decimals=0),
    "bits_per_token": Metric(higher_is_better=False, decimals=4),
    "position_bits": Metric(higher_is_better=False, decimals=4),
    "repetition_rate": Metric(higher_is_better=None, decimals=4),
    "distinct_1": Metric(higher_is_better=None, decimals=4),
    "distinct_2": Metric(higher_is_better=None, decimals=4),
    "continuation_bits": Metric(higher_is_better=None, decimals=3),
    "head_uniformity": Metric(higher_is_better=None, decimals=3),
    "head_distance": Metric(higher_is_better=None, decimals=2),
    "head_offset": Metric(higher_is_better=None, decimals=3),
    "head_distance_spread": Metric(higher_is_better=None, decimals=2),
    "head_offset_spread": Metric(higher_is_better=None, decimals=3),
    "head_redundancy": Metric(higher_is_better=None, decimals=3),
}


def metric_of(name: str) -> Metric:
    """The `Metric` of that name; ValueError naming the legal ones otherwise."""
    if name not in METRICS:
        raise ValueError(f"unknown metric {name!r}; legal: {', '.join(METRICS)}")
    return METRICS[name]

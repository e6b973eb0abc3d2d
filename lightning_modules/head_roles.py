"""What the heads of self-attention look at over a whole set of examples, batch by batch.

The figures say whether heads are spread out or sharp, and whether those of a layer do the same or
divide the work (Clark et al. 2019, sections 3 and 6; Voita et al. 2019, section 5).
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from lightning_modules.probes import AttentionRecord, attention_distance, entropy

# What of them only a layer of several heads has.
BETWEEN_HEADS = ("distance_spread", "offset_spread", "redundancy")


class HeadRoles:
    """Adds up what each head of one layer of self-attention does at real queries."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}

    def add(self, record: AttentionRecord) -> None:
        """Count a batch. A query is real where it may attend to itself: padding may not.

        Raises:
            ValueError: queries and keys are not the same tokens.
        """
        weights = record.weights.detach().float()
        n_rows, _, n_queries, n_keys = weights.shape
        if n_queries != n_keys:
            raise ValueError(f"{record.name}: {n_queries} queries, {n_keys} keys: not the same")
        allowed = torch.ones((), dtype=torch.bool, device=weights.device)
        if record.allowed is not None:
            allowed = record.allowed
        allowed = allowed.expand(n_rows, 1, n_queries, n_keys)
        real = allowed.diagonal(dim1=-2, dim2=-1)
        n_allowed = allowed.sum(-1)
        choosing = real & (n_allowed > 1)
        weights = weights * real[..., None]
        share = entropy(weights) / n_allowed.clamp_min(2).log()
        flat = weights.transpose(0, 1).flatten(1)
        self._count("queries", real.sum())
        self._count("choosing", choosing.sum())
        self._count("uniformity", (share * choosing).sum((0, 2)))
        self._count("distance", attention_distance(weights).sum((0, 2)))
        self._count("offsets", _by_offset(weights.sum(0)))
        self._count("products", flat @ flat.T)

    def measures(self) -> dict[str, float]:
        """The layer in figures; those `BETWEEN_HEADS` are left out where there is one head.

        - `uniformity`: mean entropy of a query's weights over the logarithm of the number of keys
          allowed; 1 is even attention, 0 a single key (Clark et al. 2019, section 3.3). Queries
          with one key are left out.
        - `distance`: mean number of tokens between query and key (Vig & Belinkov 2019, eq. 3).
        - `offset`: mean over heads of the weight at a head's favourite offset, such as the token
          before: 1 for the fixed patterns of Raganato & Tiedemann 2018, section 4, and of the
          positional heads of Voita et al. 2019, section 5.2. A query that has no key there counts
          as 0.
        - `distance_spread`, `offset_spread`: standard deviation over the heads.
        - `redundancy`: mean cosine similarity of the weights of two heads, over pairs.
        """
        sums, queries = self.sums, self.sums["queries"]
        distance, offset = sums["distance"] / queries, sums["offsets"].amax(-1) / queries
        found = {
            "uniformity": (sums["uniformity"] / sums["choosing"]).mean().item(),
            "distance": distance.mean().item(),
            "offset": offset.mean().item(),
        }
        if len(distance) > 1:
            values = (distance.std(), offset.std(), self._redundancy())
            found |= {name: value.item() for name, value in zip(BETWEEN_HEADS, values, strict=True)}
        return found

    def _redundancy(self) -> Tensor:
        products = self.sums["products"]
        lengths = products.diagonal().sqrt()
        pairs = torch.triu_indices(len(products), len(products), offset=1, device=products.device)
        return (products / torch.outer(lengths, lengths))[pairs[0], pairs[1]].mean()

    def _count(self, name: str, amount: Tensor) -> None:
        before = self.sums.get(name)
        if before is None:
            self.sums[name] = amount
            return
        if before.shape != amount.shape:  # offsets, of examples of another length
            longest = max(before.shape[-1], amount.shape[-1])
            before, amount = (_centred(offsets, longest) for offsets in (before, amount))
        self.sums[name] = before + amount


def _by_offset(weights: Tensor) -> Tensor:
    """The sums of `(heads, length, length)` over key minus query, `(heads, 2 length - 1)`."""
    length = weights.shape[-1]
    places = torch.arange(length, device=weights.device)
    offsets = (places - places[:, None] + length - 1).flatten()
    sums = weights.new_zeros(len(weights), 2 * length - 1)
    return sums.index_add_(1, offsets, weights.flatten(1))


def _centred(offsets: Tensor, width: int) -> Tensor:
    """The same sums with as many zeros at both ends as make them this wide."""
    margin = (width - offsets.shape[-1]) // 2
    return pad(offsets, (margin, margin))

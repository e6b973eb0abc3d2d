"""How many operations of a model wait for one another: what no number of cores makes faster."""

from torch import Tensor


def longest_chain(output: Tensor) -> int:
    """The most operations that need each other's results on the way to `output`.

    The longest path of its autograd graph: the sequential operations of Vaswani et al. 2017, table
    1, up to a factor. An operation on a whole tensor counts as one, whatever its size, and so does
    a fused one, whatever it computes inside: a fused LSTM is no chain to be seen. What no gradient
    flows through is left out.
    """
    lengths: dict[object, int] = {None: 0}
    waiting: list[object] = [output.grad_fn]
    while waiting:
        node = waiting[-1]
        earlier = [before for before, _ in getattr(node, "next_functions", ())]
        unknown = [before for before in earlier if before not in lengths]
        if unknown:
            waiting += unknown
            continue
        waiting.pop()
        if node not in lengths:
            lengths[node] = 1 + max((lengths[before] for before in earlier), default=0)
    return lengths[output.grad_fn]

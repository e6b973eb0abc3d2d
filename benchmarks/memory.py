"""What one layer of causal self-attention keeps for the backward pass, explicit and fused.

    python -m benchmarks.memory

Megabytes for one row by its length, at the width of Transformer-Tiny; on a GPU the peak of both
passes. Explicit attention keeps its weights, so the square of the length; fused attention makes
them anew, and what it keeps grows with the length (Dao et al. 2022, theorem 1). Prints a table,
then one line of JSON.
"""

import argparse
import json
from collections.abc import Sequence

from benchmarks import _measuring  # noqa: F401  # before torch: it sets the threads

# isort: split
import torch

from lightning_modules.design import Design, Dims
from lightning_modules.memory import attention_memory

LENGTHS = (64, 128, 256, 512, 1024, 2048)


def main(words: Sequence[str] | None = None) -> dict[str, list[float]]:
    """Measure, print, and return the megabytes by path, in the order of `LENGTHS`."""
    argparse.ArgumentParser(description="Memory of attention by length.").parse_args(words)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = {
        name: [
            attention_memory(Design(), Dims(), length=n, explicit=explicit, device=device) / 1e6
            for n in LENGTHS
        ]
        for name, explicit in (("explicit", True), ("fused", False))
    }
    times = [one / other for one, other in zip(*found.values(), strict=True)]
    print(f"{f'megabytes a row, {device}':<22}" + "".join(f"{n:>9} tokens" for n in LENGTHS))
    for name, values in {**found, "explicit / fused": times}.items():
        print(f"{name:<22}" + "".join(f"{value:>16.2f}" for value in values))
    print(json.dumps(found))
    return found


if __name__ == "__main__":
    main()

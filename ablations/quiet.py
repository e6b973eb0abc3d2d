"""What is left out of the terminal."""

import logging
import warnings


def quieten() -> None:
    """Leave out of the terminal what Lightning says to those who set up a Trainer by hand."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module=r"pytorch_lightning|lightning_fabric")
    warnings.filterwarnings("ignore", message=".*does not have many workers")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")

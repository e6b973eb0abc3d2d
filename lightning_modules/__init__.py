"""The science: Transformer design choices as Lightning modules.

Knows nothing of sweeps, files or W&B.
"""

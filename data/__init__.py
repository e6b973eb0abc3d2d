"""Data: LightningDataModules for every task. Knows nothing of models."""

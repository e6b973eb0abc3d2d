"""Claims about a model that need no training, each with what measures it."""

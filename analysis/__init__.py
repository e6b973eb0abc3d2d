"""Tables, effects, curves and verdicts from the ledger. Needs no torch."""

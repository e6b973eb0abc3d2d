"""What a run does that depends on its task: the data, the module and the evaluation."""

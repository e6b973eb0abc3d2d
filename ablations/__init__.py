"""From a study file to finished runs."""

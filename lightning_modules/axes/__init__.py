"""One file for each family of design axes."""

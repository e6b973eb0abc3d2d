PYTHON ?= python3
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count())')
SHOWN := runs/studies/demo
BIN := .venv/bin
INSTALLED := .venv/.installed
INSTALL := $(BIN)/python -m pip install -qq --constraint constraints.txt

.PHONY: demo test bench clean FORCE

## The main job on data that needs no download: a grid of runs, its table and its figure.
demo: $(INSTALLED)
	$(BIN)/ablate sweep demo --workers $(WORKERS)
	@$(BIN)/ablate table demo --format markdown --output $(SHOWN)/table.md
	@$(BIN)/ablate table demo --figures $(SHOWN)
	@echo "table: $(SHOWN)/table.md"

## Formatting, lint, types and tests.
test: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest --numprocesses auto --dist loadfile

## Speed against what one would write otherwise, in about thirteen minutes; no part of the tests.
bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

## The page of the axes, from the code.
docs/axes.md: $(INSTALLED) FORCE
	@printf '# The axes\n\n' > $@
	$(BIN)/ablate axes >> $@

FORCE:

## Remove the environment; results under runs/ stay.
clean:
	rm -rf .venv

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "Python 3.11 or newer is needed; name one with: make PYTHON=python3.11")'
	@echo "Installing into .venv, once; this takes a few minutes."
	@echo "1/3 environment"
	@$(PYTHON) -m venv .venv
	@echo "2/3 torch"
	@$(INSTALL) torch
	@echo "3/3 everything else, and this project"
	@$(INSTALL) --editable '.[dev]'
	@touch $@

# Every target sets up what it needs. `make help` lists them.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
EMULATOR_VENV := .venv-emulator
BIN := $(VENV)/bin
JOBS ?= 2

export PYTHONPATH := lambda_src:.
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: help setup lint format test-fast test simulate clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

setup: $(VENV)/.ready $(EMULATOR_VENV)/.ready ## Create the virtual environments from the locked requirements

$(VENV)/.ready: requirements/dev.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	touch $@

$(EMULATOR_VENV)/.ready: requirements/emulator.txt
	$(PYTHON) -m venv --clear $(EMULATOR_VENV)
	$(EMULATOR_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/emulator.txt
	touch $@

lint: setup ## ruff and mypy --strict
	$(BIN)/ruff check lambda_src sandbox tests
	$(BIN)/ruff format --check lambda_src sandbox tests
	$(BIN)/mypy

format: setup ## Format the Python sources
	$(BIN)/ruff check --fix lambda_src sandbox tests
	$(BIN)/ruff format lambda_src sandbox tests

test-fast: $(VENV)/.ready ## The quick tier, under one minute: what to run while editing
	$(BIN)/pytest -q -m "not slow and not emulator" -n $(JOBS)

test: lint ## Everything: lint, all tests, coverage of domain and handlers
	$(BIN)/pytest -q -n $(JOBS) --cov --cov-report=term --cov-report=json:build/coverage.json
	$(BIN)/python -m tests.coverage_gate build/coverage.json

simulate: $(VENV)/.ready ## Play the usage trace through every handler on a simulated clock
	$(BIN)/python -m sandbox.simulate

clean: ## Remove what the targets made
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
	rm -rf $(VENV) $(EMULATOR_VENV)

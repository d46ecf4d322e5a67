# Every target sets up what it needs. `make help` lists them.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
EMULATOR_VENV := .venv-emulator
CHECKOV_VENV := .venv-checkov
NEWEST_CORE_VENV := .venv-newest-core
BIN := $(VENV)/bin
JOBS ?= 2

export PYTHONPATH := lambda_src:.
# Rewriting the assertions of all tests takes 15 s of a core: each worker reads what another has written.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup lock lint lint-python lint-modules lint-plans format build verify-build test-fast test test-wide simulate demo sandbox prove soak mutants screenshots chromium docs release clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

ENVIRONMENTS := $(VENV)/.ready $(EMULATOR_VENV)/.ready $(CHECKOV_VENV)/.ready $(NEWEST_CORE_VENV)/.ready
# What is locked is complete: there is nothing to resolve, and `pip check` fails where that is not so for this Python.
# Not compiled: of most packages a run imports little, and Python compiles that when it does.
INSTALL := install --quiet --no-deps --no-compile --require-hashes
# One environment has pip, which installs into the others: making a pip takes 5 s of a core.
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Side by side, because an installation waits more than it computes.
SIDE_BY_SIDE := $(MAKE) --no-print-directory --jobs=4

setup: ## Create the virtual environments from the locked requirements
	@$(SIDE_BY_SIDE) $(ENVIRONMENTS)

$(VENV)/.pip: requirements/dev.txt
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

$(VENV)/.ready: $(VENV)/.pip
	$(PIP) $(INSTALL) -r requirements/dev.txt
	$(PIP) check
	touch $@

# Of the four, what runs the emulator, checkov, and the newest Terraform core, as a library, on modules' own tests.
.venv-%/.ready: requirements/%.txt | $(VENV)/.pip
	$(PYTHON) -m venv --clear --without-pip $(@D)
	$(PIP) --python $(@D) $(INSTALL) -r $<
	$(PIP) --python $(@D) check
	touch $@

CHECKOV := $(CHECKOV_VENV)/bin/checkov --skip-download --quiet --compact

lock: $(VENV)/.ready ## Renew the locked requirements from the .in files
	$(PYTHON) -m venv --clear build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	cd requirements && for name in runtime dev emulator checkov newest-core; do \
	  ../build/lock/bin/uv pip compile --quiet --generate-hashes --no-header --no-annotate --python-version 3.11 \
	    --no-emit-index-url --no-emit-find-links $$name.in -o $$name.txt; done

lint: setup ## ruff, mypy --strict, terraform fmt and checkov, on the modules and on every example's plan
	@$(SIDE_BY_SIDE) lint-python lint-modules lint-plans

lint-python:
	$(BIN)/ruff check lambda_src sandbox tests policies
	$(BIN)/ruff format --check lambda_src sandbox tests policies
	$(BIN)/mypy

lint-modules:
	terraform fmt -check -recursive modules
	terraform fmt -check -recursive examples
	$(CHECKOV) -d modules -d examples --framework terraform --skip-path 'modules/.*/tests/'
	$(CHECKOV) -d modules --framework terraform --skip-path 'modules/.*/tests/' --external-checks-dir policies/checkov --check 'CKV_AWSMP_*'

lint-plans:
	$(BIN)/python -m tests.terraform.example_plan
	$(CHECKOV) -f build/example-plans/*.json --framework terraform_plan --repo-root-for-plan-enrichment .

build: $(VENV)/.ready ## Build the Lambda packages into lambda_dist
	$(BIN)/python -m sandbox.build_packages build

verify-build: $(VENV)/.ready ## Rebuild the packages in other surroundings and compare
	$(BIN)/python -m sandbox.build_packages verify

format: setup ## Format the Python sources
	$(BIN)/ruff check --fix lambda_src sandbox tests policies
	$(BIN)/ruff format lambda_src sandbox tests policies

test-fast: $(VENV)/.ready ## The quick tier, under one minute: what to run while editing
	$(BIN)/pytest -q -m "not slow and not emulator" -n $(JOBS)

# The browser of the operating system: installed where that may be done without asking, else the check says what is missing.
chromium: $(VENV)/.ready
	@$(BIN)/python -m sandbox.find_chromium > /dev/null 2>&1 || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get update --quiet && \
	    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends chromium; } || true
	$(BIN)/python -m sandbox.find_chromium

# One process more than cores: what is deployed waits for much of its time. Tests of a group stay on one of them.
test: setup chromium ## The tests and proofs, coverage of domain and handlers, no permission unused; under 20 minutes
	$(BIN)/pytest -q -n $$(( $(JOBS) + 1 )) --dist loadgroup -m "not wide" --judge-unused-permissions --cov --cov-report=term --cov-report=json:build/coverage.json
	$(BIN)/python -m tests.coverage_gate build/coverage.json

test-wide: setup ## What `make test` proves once, for further partitions, examples, releases and Terraform cores
	$(BIN)/pytest -q -n $(JOBS) --dist loadgroup -m wide

simulate: $(VENV)/.ready ## Play the usage trace through every handler on a simulated clock
	$(BIN)/python -m sandbox.simulate

demo: ## From terraform apply to the billed hour, on this machine (KEEP=1 leaves it running)
	@$(SIDE_BY_SIDE) $(VENV)/.ready $(EMULATOR_VENV)/.ready
	$(BIN)/python -m sandbox.build_packages build
	$(BIN)/python -m sandbox.demo

sandbox: setup ## Run AWS and the fake Marketplace on this machine until Ctrl-C
	$(BIN)/python -m sandbox.local_cloud

prove: $(VENV)/.ready ## Of the tests, the proofs: hundreds of random runs, every fault met, every interleaving of a tiny group
	$(BIN)/pytest -q -n $(JOBS) --dist loadgroup -m proof

SECONDS ?= 600
soak: $(VENV)/.ready ## Random runs until SECONDS are over; prints the seeds and figures
	$(BIN)/python -m sandbox.soak --seconds $(SECONDS)

mutants: $(VENV)/.ready ## Flip dangerous lines one by one; each must turn a test red
	$(BIN)/python -m sandbox.mutants --jobs $(JOBS)

screenshots: chromium ## Renew the documentation's pictures of the registration page
	$(BIN)/python -m sandbox.screenshots

docs: $(VENV)/.ready ## Renew the generated tables of the modules' READMEs
	$(BIN)/python -m sandbox.module_docs write

release: $(VENV)/.ready ## Check that this commit can be released; YES=1 writes the changelog, then makes the tag
	$(BIN)/python -m sandbox.release $(if $(filter 1,$(YES)),--yes)

clean: ## Remove what the targets made
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
	rm -rf $(VENV) $(EMULATOR_VENV) $(CHECKOV_VENV) $(NEWEST_CORE_VENV)

# Every verb works from a fresh clone: it makes the environment in .venv first where it needs it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup run test demo check fmt sim chaos crashpoints corruption scorecard bench proto clean

PYTHON ?= python3
PORT ?= 8080
SEEDS ?= 200
ROUNDS ?= 20
TRIALS ?= 1000
PIP := .venv/bin/pip --disable-pip-version-check install --quiet --require-hashes
READY := .venv/.ready
# In this order: what is cheap and exact first.
SUITES := unit property contract scenarios linearizability tidy simulation integration e2e
TESTS := $(foreach suite,$(SUITES),$(wildcard tests/$(suite)))

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

$(READY): requirements/build.lock requirements/dev.lock requirements/clients.lock pyproject.toml
	@.ci/check-python $(PYTHON)
	$(PYTHON) -m venv .venv
	$(PIP) -r requirements/build.lock
	$(PIP) --no-build-isolation -r requirements/dev.lock
	.venv/bin/pip --disable-pip-version-check install --quiet --no-build-isolation --no-deps -e .
	$(PYTHON) -m venv .venv/clients
	.venv/clients/bin/pip --disable-pip-version-check install --quiet --require-hashes -r requirements/clients.lock
	@touch $@

setup: $(READY) ## Make .venv with the locked dependencies (again only when they change)

run: $(READY) ## Three nodes and a gateway on PORT (8080), data in ./data, until Ctrl-C or RUN_SECONDS
	@.venv/bin/svc-cluster local --nodes 3 --port $(PORT) --data-dir ./data --demo

test: $(READY) ## The whole test suite, within 10 minutes
	@SIMULATION_SEEDS=$${SIMULATION_SEEDS:-200} .venv/bin/python -m pytest -n $(shell nproc) --dist worksteal $(TESTS)

demo: $(READY) ## A million records through three leader kills, then every one of them verified
	@.venv/bin/python -m svc_cluster.cli.demo

check: $(READY) ## Format, lint, types, layers, generated code
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/ruff check --quiet .
	@.venv/bin/mypy --no-error-summary
	@.venv/bin/lint-imports
	@.ci/proto --check

fmt: $(READY) ## Format the code and mend what the linter can mend
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

sim: $(READY) ## Simulate SEEDS (200) clusters with random faults
	@.venv/bin/python -m tests.simulation --seeds $(SEEDS) --jobs $(shell nproc)

chaos: $(READY) ## ROUNDS (20) of faults against real processes, each judged by the checker
	@.venv/bin/python -m tests.chaos --rounds $(ROUNDS)

crashpoints: $(READY) ## SIGKILL at every write, sync, rename, unlink and truncate of a scripted run
	@.venv/bin/python -m tests.crashpoints

corruption: $(READY) ## TRIALS (1000) of damaged files: never a wrong answer, repaired or refused
	@.venv/bin/python -m tests.corruption --trials $(TRIALS)

scorecard: $(READY) ## Write docs/reliability.md from the recorded runs
	@.venv/bin/python -m tests.reliability_scorecard

bench: $(READY) ## Measure a local three-node cluster: appends and reads at several loads
	@.venv/bin/svc-cluster bench local

proto: $(READY) ## Generate svc_cluster/_pb from proto/
	@.ci/proto

clean: ## Remove the environment, the data of `make run` and what tools left behind
	rm -rf data .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find svc_cluster tests -name __pycache__ -type d -prune -exec rm -rf {} +

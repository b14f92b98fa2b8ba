.DEFAULT_GOAL := help
.PHONY: help setup jars demo soak chronic check test test-all promtool pixels pictures bench lab chaos fuzz reports lint dist release site image plugin sbom audit needed system
SHELL := /bin/sh
ARGS ?=
STAGES ?=
# A healthy client, and one of each failure mode.
CHRONIC := healthy,callback-deadlock,send-blocked,not-closed,cross-topic-blocking,shutdown-loop,delivery-stalled,consumer-stalled

# Healthy clients of all libraries, while brokers and clients restart and groups rebalance.
SOAK := healthy,restless,rolled,rolled-3.9,rolled-2.3,rolled-0.11,rolled-confluent-kafka,rolled-kafka-python,rolled-aiokafka,rolled-groups,idle,connector-per-topic

# The first Python on the PATH that our dependencies support.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && { echo $$p; break; }; done)
UV := $(shell command -v uv 2>/dev/null || echo .cache/uv/bin/uv)
READY := .venv/.ready

# Each tool gets a Go module of its own, because they need different versions of the same libraries.
GO_TOOLS := github.com/prometheus/prometheus/cmd/promtool@v0.313.5 github.com/prometheus/alertmanager/cmd/amtool@v0.35.0

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: needed $(READY) ## what kafka-health needs for a Kafka of your own, without root; demo and tests fetch the rest
	@.venv/bin/python -m clienthealth.platform.jars spark

jars: system setup
	@.venv/bin/python -m deploy.demo.jars

demo: jars ## the whole product on this machine, with clients that really fail; ARGS="--for 300"
	@exec .venv/bin/kafka-health demo $(ARGS)

soak: jars ## 30 minutes of healthy clients while brokers restart and groups rebalance: nobody must be paged
	@exec .venv/bin/kafka-health demo --for 1800 --expect none --clients $(SOAK) $(ARGS)

chronic: jars ## 30 minutes of every failure: each must be shown all the time, with one page; ARGS="--clients send-blocked"
	@exec .venv/bin/kafka-health demo --for 1800 --clients $(CHRONIC) $(ARGS)

check: jars ## lint, types, laws and unit tests, in 90 seconds: after every change
	@UV="$(UV)" .venv/bin/python -m deploy.supply.helm
	@exec .venv/bin/python -m tests.stages check $(STAGES)

test: jars ## these, and one real path through everything, in five to nine minutes on two cores; STAGES="unit spark" chooses
	@UV="$(UV)" .venv/bin/python -m deploy.supply.helm
	@exec .venv/bin/python -m tests.stages test $(STAGES)

test-all: jars ## everything, including tests with minutes of real time, days of event time or servers of their own
	@PYTHON="$(PYTHON)" SYSTEM="$(SYSTEM)" sh deploy/demo/system.sh test-all
	@! command -v krb5-config >/dev/null || $(UV) pip install --quiet --python .venv/bin/python gssapi
	@UV="$(UV)" .venv/bin/python -m deploy.supply.helm
	@exec .venv/bin/python -m tests.stages test-all $(STAGES)

promtool: ## promtool and amtool as people run them today, for the long tests of the rules; needs Go, and builds for minutes
	@test "$$(cat .cache/go/built 2>/dev/null)" = "$(GO_TOOLS)" || { rm -rf .cache/go && for tool in $(GO_TOOLS); do \
	  (mkdir -p ".cache/go/$${tool##*/}" && cd ".cache/go/$${tool##*/}" && go mod init tools && go get -tool "$$tool" && \
	  GOBIN="$$PWD/../bin" go install -tags remove_all_sd tool) || exit 1; done && echo "$(GO_TOOLS)" >.cache/go/built; }

pixels: system setup ## every panel of every dashboard drawn by Grafana's own components in a browser, two minutes; needs node and npm
	@exec env DASHBOARDS_IN_PIXELS=1 .venv/bin/python -m pytest -q --no-header tests/e2e/test_dashboards_pixels.py

pictures: system setup ## take the pictures of all pages anew, five minutes; needs node and npm
	@exec .venv/bin/python -m tests.support.pictures

bench: jars ## what the complete monitor costs, against budgets and a peer; two hours; ARGS="backlog_canonical --quick"
	@exec .venv/bin/python -m tests.bench $(ARGS)

lab: jars ## 60 real clients in random circumstances, by a seed, recorded and judged; half an hour; ARGS="--seed 101 --cases 60"
	@exec .venv/bin/python -m tests.lab $(ARGS)

chaos: jars ## kill, freeze, fill, cut: 50 faults, and what they may not change; ARGS="--faults 10 --seed 7"
	@exec .venv/bin/python -m tests.chaos $(ARGS)

fuzz: system setup ## an hour of coverage-guided fuzzing of all code that reads foreign input; ARGS="records --minutes 5"
	@exec $(UV) run --quiet --frozen --no-sync --with 'atheris>=3' python -m tests.fuzz $(ARGS)

reports: setup ## train the classifier of persons' sentences with tests/reports/learned.tsv, in two minutes
	@exec $(UV) run --quiet --frozen --no-sync --with scikit-learn==1.9.1 python -m tests.reports

lint: setup ## format and lint, repairing what can be repaired
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix .

dist: system setup plugin ## the parts of a release in dist/: the brokers' plugin, and wheel and source distribution, each tried alone
	@UV="$(UV)" .venv/bin/python -m deploy.supply.dist

release: system setup ## all of a release that needs no account: commit, dist/, tag, and the commands that publish it; VERSION=1.2.3
	@UV="$(UV)" .venv/bin/python -m deploy.supply.release "$(VERSION)"

site: setup ## the pages as a site in dist/site, every link checked
	@.venv/bin/python -m deploy.supply.site

image: setup ## run the image's steps without a container engine, then its monitor on a read-only root; as root, 3 GB, needs mmdebstrap
	@.venv/bin/python -m deploy.supply.image $(or $(ARGS),/tmp/kafka-health-image)

plugin: system setup ## the brokers' plugin as a jar, in dist/
	@.venv/bin/python -m deploy.supply.plugin

sbom: setup ## the parts of an installation, as CycloneDX in dist/
	@UV="$(UV)" .venv/bin/python -m deploy.supply.sbom

audit: setup ## known vulnerabilities of jars and Python packages, with the newest answer of OSV on the internet
	@UV="$(UV)" .venv/bin/python -m deploy.supply.audit

needed system:
	@PYTHON="$(PYTHON)" SYSTEM="$(SYSTEM)" sh deploy/demo/system.sh $(if $(filter needed,$@),needed,all)

$(READY): uv.lock pyproject.toml | needed
	@test -x "$$(command -v $(UV))" || { \
	  $(PYTHON) -m venv .cache/uv && .cache/uv/bin/python -m pip install --quiet --disable-pip-version-check uv; }
	@echo "installing Python packages into .venv (a minute)"
	@$(UV) sync --quiet --frozen --all-extras --compile-bytecode --python $(PYTHON)
	@touch $@

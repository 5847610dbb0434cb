# `make` lists the targets. Every target that needs the environment sets it up first.
VENV := $(or $(NCF_BENCH_VENV),.venv)
PYTHON_IN := "$(VENV)/bin/python"
SUITE ?= smoke
ARGS ?=
# Two workers; a file goes to one of them, and tests of several ranks run one by one.
WORKERS ?= -n 2 --dist loadgroup

.DEFAULT_GOAL := help
.PHONY: help install lint type test test-fast test-all bench-smoke report clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | column -t -s '|' 2>/dev/null \
		|| sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1: \2/p' Makefile

install: ## set up the environment with the development tools
	@bash scripts/setup.sh --dev

lint: install ## check format and lint
	$(PYTHON_IN) -m ruff format --check .
	$(PYTHON_IN) -m ruff check .

type: install ## check types
	$(PYTHON_IN) -m mypy

test: install ## run the tests; ARGS="-k store" passes options to pytest
	$(PYTHON_IN) -m pytest $(WORKERS) $(ARGS)

test-fast: install ## run the tests that need neither TensorFlow nor long processes: under a minute
	$(PYTHON_IN) -m pytest $(WORKERS) -m "not slow and not tf and not long" $(ARGS)

test-all: install ## run the tests, the slow ones too
	$(PYTHON_IN) -m pytest $(WORKERS) -m "" $(ARGS)

bench-smoke: ## run the smoke suite
	./run_benchmarks.sh run smoke

report: install ## write the tables and pictures again; SUITE=smoke
	$(PYTHON_IN) -m bench report $(SUITE)

clean: ## remove caches and build output; environment, data and results stay
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

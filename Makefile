# `make` lists the targets. Every target that needs the environment sets it up first.
VENV := $(or $(NCF_BENCH_VENV),.venv)
PYTHON_IN := "$(VENV)/bin/python"
SUITE ?= smoke
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install lint type test test-all bench-smoke report clean

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
	$(PYTHON_IN) -m pytest $(ARGS)

test-all: install ## run the tests, the slow ones too
	$(PYTHON_IN) -m pytest -m "" $(ARGS)

bench-smoke: ## run the smoke suite
	./run_benchmarks.sh run smoke

report: install ## write the tables and pictures again; SUITE=smoke
	$(PYTHON_IN) -m bench report $(SUITE)

clean: ## remove caches and build output; environment, data and results stay
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

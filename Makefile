# `make` lists the targets. Everything runs in .venv, which each target brings up to date first.

.DEFAULT_GOAL := help
.NOTPARALLEL:

# Another Spark's settings in the caller's environment would be used instead of the pinned PySpark.
unexport SPARK_HOME SPARK_CONF_DIR PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON PYTHONPATH PYTHONHOME

BIN := .venv/bin
# Tests wait more than they compute: two workers, each with a Spark of its own, keep two cores busy.
WORKERS ?= 2

.PHONY: help setup demo test check format bench bench-quick test-thorough test-pythons release requirements hooks clean java venv

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: java venv ## Create or update .venv (Python 3.11 to 3.13, Java 17 or newer, PyPI)

demo: java venv ## Run the demonstration: about half a minute; ARGS=--forever keeps going
	@$(BIN)/millstream demo $(ARGS)

test: java venv ## Run the tests; ARGS="tests/unit -k window" picks some, WORKERS=0 runs them in one process
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: venv ## Check format, lint, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: venv ## Format the code and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: java venv ## Measure against native Structured Streaming and Flink: an hour or two; writes docs/benchmarks.md
	$(BIN)/python -m bench $(ARGS)

bench-quick: java venv ## The same on small inputs: under three minutes, figures for orientation only
	$(BIN)/python -m bench --quick $(ARGS)

test-thorough: java venv ## Run what `make test` runs only a sample of
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m thorough $(ARGS)

test-pythons: java venv ## Run the unit tests and cases with the other supported Pythons that are found
	WORKERS=$(WORKERS) scripts/test-pythons

release: java venv ## Build wheel and sdist, check them, and run the demo from the wheel in an empty environment
	scripts/release

requirements: venv ## Pin the dependencies again after a change of pyproject.toml; ARGS=--upgrade renews all pins
	scripts/pin $(ARGS)

hooks: venv ## Run `make check` before every commit
	$(BIN)/pre-commit install

clean: ## Remove .venv and everything else that was generated
	rm -rf .venv .venv-3.* bench/.venv-flink bench/.venv-polars build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

java:
	@scripts/check-java

venv:
	@PYTHON="$(PYTHON)" scripts/setup

.PHONY: check test format

check:  ## style and types
	.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy

test:  ## the quick tests
	.venv/bin/pytest -m "not slow and not gpu"

format:
	.venv/bin/ruff check --fix . && .venv/bin/ruff format .

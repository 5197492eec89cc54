.PHONY: check test format

check:  ## style, types and layers
	.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/lint-imports

test:  ## the quick tests
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 .venv/bin/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow and not gpu"

format:
	.venv/bin/ruff check --fix . && .venv/bin/ruff format .

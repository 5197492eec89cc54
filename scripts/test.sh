#!/usr/bin/env bash
# Run all checks and tests that this machine supports: style, types, layers, unit tests, then the slow tests.
# Usage: scripts/test.sh [pytest options]
set -euo pipefail
source "$(dirname "$0")/env.sh"
install dev requirements-dev.txt
cd "$root"
"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" -m mypy
"$python" "$root/.venv/bin/lint-imports"
# Two processes with one thread each, because training runs would otherwise wait for each other. Tests of a file share
# its fixtures, so files are not split; the order is set in tests/conftest.py, with slow tests first.
export OMP_NUM_THREADS=1
# Keep compiled modules regardless of the environment, because dozens of processes import them. Tests install nothing.
unset PYTHONDONTWRITEBYTECODE LOCKED
# Tests start Python as users do, with the current directory on the import path.
unset PYTHONSAFEPATH
exec "$python" -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 10 "$@"

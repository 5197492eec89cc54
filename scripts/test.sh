#!/usr/bin/env bash
# Check and test everything this machine can: style, types, layers, unit tests, then the slow tests.
# Usage: scripts/test.sh [pytest options]
set -euo pipefail
source "$(dirname "$0")/env.sh"
install dev requirements-dev.txt
cd "$root"
"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" -m mypy
"$python" "$root/.venv/bin/lint-imports"
# Two processes, and in each one thread: trainings would otherwise wait for each other. What a file has made is used by
# all of its tests, so a file is not split; they come in the order of tests/conftest.py, those with slow tests first.
export OMP_NUM_THREADS=1
# Compiled modules are kept, whatever the environment says: dozens of processes import them. Tests install nothing.
unset PYTHONDONTWRITEBYTECODE LOCKED
# Tests start Python as users do, whose current directory is on the import path.
unset PYTHONSAFEPATH
exec "$python" -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 10 "$@"

#!/usr/bin/env bash
# Check and test everything this machine can: style, types, unit tests, then the slow tests.
# Usage: scripts/test.sh [pytest options]
set -euo pipefail
source "$(dirname "$0")/env.sh"
install dev requirements-dev.txt requirements-cluster.txt
cd "$root"
"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" -m mypy
# Two processes, and in each one thread: trainings would otherwise wait for each other.
export OMP_NUM_THREADS=1
exec "$python" -m pytest -n 2 --dist loadfile "$@"

#!/usr/bin/env bash
# What only a GPU can show, in under 15 minutes and one table: tests, training, translating at the paper's size.
# Usage: scripts/check_gpu.sh [--cpu]                  where there is .venv, or a Python with torch and runs/wheels
#        scripts/check_gpu.sh --bundle [--python 3.12] makes runs/wheels for a machine without a network
set -euo pipefail
root=$(CDPATH= cd "$(dirname "$0")/.." && pwd)
program=check
[ "${1:-}" = --bundle ] && { program=bundle; shift; }
if [ -e "$root/.venv/.installed-core" ] || [ "$program" = bundle ]; then
  source "$root/scripts/env.sh"
  install dev requirements-dev.txt
else
  python=${PYTHON:-python3}
  packages=$("$python" "$root/scripts/gpu/unpack.py") || exit
  export PYTHONPATH=$root:$packages${PYTHONPATH:+:$PYTHONPATH}
fi
exec "$python" "$root/scripts/gpu/$program.py" "$@"

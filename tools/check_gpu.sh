#!/usr/bin/env bash
# Run all checks that need a GPU, in under 15 minutes, with one table: tests, training, translating at the paper's size.
# Usage: tools/check_gpu.sh [--cpu]                  with .venv, or with a Python that has torch and runs/wheels
#        tools/check_gpu.sh --bundle [--python 3.12] builds runs/wheels for a machine without network access
set -euo pipefail
root=$(CDPATH= cd "$(dirname "$0")/.." && pwd)
program=check
[ "${1:-}" = --bundle ] && { program=bundle; shift; }
if [ -e "$root/.venv/.installed-core" ] || [ "$program" = bundle ]; then
  source "$root/scripts/env.sh"
  install dev requirements-dev.txt
else
  python=${PYTHON:-python3}
  packages=$("$python" "$root/tools/gpu/unpack.py") || exit
  export PYTHONPATH=$root:$packages${PYTHONPATH:+:$PYTHONPATH}
fi
exec "$python" "$root/tools/gpu/$program.py" "$@"

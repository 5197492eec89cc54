#!/usr/bin/env bash
# Train a system of an experiment, on all GPUs of this machine or on its CPU.
# Usage: scripts/train.sh CONFIG SYSTEM [fairseq-train options]; --help lists the options.
set -euo pipefail
source "$(dirname "$0")/env.sh"
exec "$python" -m fairseq_ext.recipes.translation.commands train "$@"

#!/usr/bin/env bash
# Train the domain classifier of an experiment and label its sentences.
# Usage: scripts/train_teacher.sh CONFIG [options]; --help lists them.
set -euo pipefail
source "$(dirname "$0")/env.sh"
exec "$python" "$root/data-prep/train_teacher.py" "$@"

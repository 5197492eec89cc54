#!/usr/bin/env bash
# Import, split, segment and binarise the corpora of an experiment.
# Usage: scripts/prepare.sh CONFIG [options]; --help lists them.
set -euo pipefail
source "$(dirname "$0")/env.sh"
exec "$python" "$root/data-prep/prepare.py" "$@"

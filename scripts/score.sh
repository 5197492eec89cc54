#!/usr/bin/env bash
# Score the translations of an experiment and print the table.
# Usage: scripts/score.sh CONFIG; --help lists the options.
set -euo pipefail
source "$(dirname "$0")/env.sh"
exec "$python" -m fairseq_ext.recipes.translation.commands score "$@"

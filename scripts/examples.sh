#!/usr/bin/env bash
# Translate a few lines through fairseq-interactive and print them, with the gate weights.
# Usage: scripts/examples.sh CONFIG; --help lists the options.
set -euo pipefail
source "$(dirname "$0")/env.sh"
exec "$python" -m fairseq_ext.recipes.translation.commands examples "$@"

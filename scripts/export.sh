#!/usr/bin/env bash
# Export a trained system as a directory that holds all it needs to translate.
# Usage: scripts/export.sh CONFIG SYSTEM DIRECTORY, or --verify DIRECTORY; --help lists the options.
set -euo pipefail
source "$(dirname "$0")/env.sh"
exec "$python" -m fairseq_ext.recipes.translation.commands export "$@"

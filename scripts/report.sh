#!/usr/bin/env bash
# Write the report of an experiment: a page, Markdown and pictures of what has been measured.
# Usage: scripts/report.sh CONFIG; --help lists the options.
set -euo pipefail
source "$(dirname "$0")/env.sh"
exec "$python" -m fairseq_ext.recipes.translation.commands report "$@"

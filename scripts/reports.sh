#!/usr/bin/env bash
# List all reports below a folder on one page: reports.html, and reports.md.
# Usage: scripts/reports.sh FOLDER
set -euo pipefail
source "$(dirname "$0")/env.sh"
exec "$python" -m fairseq_ext.report.overview "$@"

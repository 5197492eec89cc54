#!/usr/bin/env bash
# Run an experiment from its corpora to its report.
# Usage: scripts/run_experiment.sh CONFIG [--from STAGE] [--to STAGE] [--only STAGE…] [--dry-run]; --help lists the options.
set -euo pipefail
source "$(dirname "$0")/env.sh"
exec "$python" -m fairseq_ext.recipes.run "$@"

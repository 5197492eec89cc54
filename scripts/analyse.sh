#!/usr/bin/env bash
# Analyse a trained experiment: distances between its domains, its gates, parameters, speed.
# Usage: scripts/analyse.sh CONFIG [NAME…]; --help lists the options.
set -euo pipefail
source "$(dirname "$0")/env.sh"
exec "$python" -m fairseq_ext.recipes.translation.commands analyse "$@"

#!/usr/bin/env bash
# The old name of scripts/run_experiment.sh for one kind of experiment; it goes with the next release.
set -euo pipefail
source "$(dirname "$0")/env.sh"
exec "$python" -m fairseq_ext.experiments.old_names run_dagru_experiment.sh "$@"

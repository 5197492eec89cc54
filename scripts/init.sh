#!/usr/bin/env bash
# Look at a folder of corpora and write an experiment file of a fitting size.
# Usage: scripts/init.sh FOLDER [--output my.yaml] [--source LANG] [--target LANG]; --help lists the options.
set -euo pipefail
source "$(dirname "$0")/env.sh"
exec "$python" -m fairseq_ext.recipes.translation.commands init "$@"

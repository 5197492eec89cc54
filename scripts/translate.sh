#!/usr/bin/env bash
# Translate a text, or the test sets of an experiment.
# Usage: scripts/translate.sh EXPORTED|CONFIG --input FILE --output FILE [--system NAME] [--route ROUTE]
#        scripts/translate.sh CONFIG [OUTPUT] [fairseq-generate options]; --help lists the options.
set -euo pipefail
source "$(dirname "$0")/env.sh"
exec "$python" -m fairseq_ext.recipes.translation.commands translate "$@"

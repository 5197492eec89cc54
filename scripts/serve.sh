#!/usr/bin/env bash
# Serve an exported system over HTTP: a page at /, JSON at /translate.
# Usage: scripts/serve.sh EXPORTED [options]; --help lists them.
set -euo pipefail
source "$(dirname "$0")/env.sh"
install serve requirements-serve.txt
exec "$python" -m fairseq_ext.serving.command_line "$@"

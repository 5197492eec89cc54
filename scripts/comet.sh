#!/usr/bin/env bash
# Create .venv-comet, a separate environment for COMET; fairseq-ext score uses it if a configuration has
# "evaluate: comet: MODEL", a COMET model on this machine. PYTHON=/path/to/python3.11 selects the interpreter.
# Usage: scripts/comet.sh
set -euo pipefail
export PYTHONSAFEPATH=1  # modules of the current directory must not hide the libraries
root=$(CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
environment=$root/.venv-comet
stamp=$environment/.installed
fail() { echo "$*" >&2; exit 1; }
[ $# -eq 0 ] || fail "Usage: scripts/comet.sh (it takes no arguments)"

wanted=$(cksum < "$root/requirements-comet.txt")
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
  base=${PYTHON:-python3.11}
  command -v "$base" >/dev/null || fail "Python 3.11 not found: install python3.11, or set PYTHON to its path."
  [ -x "$environment/bin/python" ] || "$base" -m venv "$environment" ||
    fail "Could not create $environment: apt-get install python3.11-venv."
  echo "Installing COMET into .venv-comet (about 2 minutes, once) …" >&2
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check -r "$root/requirements-comet.txt" ||
    fail "Installation failed: see pip's message above, then run the same command again."
  "$environment/bin/python" -W ignore -c "import comet" || fail "COMET is installed, but does not start: see the messages above."
  echo "$wanted" > "$stamp"
fi
echo "$environment is ready" >&2

#!/usr/bin/env bash
# Build docs/ as one searchable site, runs/site/index.html, in a separate environment, .venv-docs.
# LOCKED=1 installs exactly the files in requirements-lock/, by their hashes.
# Usage: tools/docs.sh [--serve]     --serve: serve it at http://127.0.0.1:8001/ until Ctrl-C
set -euo pipefail
export PYTHONSAFEPATH=1  # modules of the current directory must not hide the libraries
root=$(CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
environment=$root/.venv-docs
stamp=$environment/.installed
fail() { echo "$*" >&2; exit 1; }
case "$*" in
  "" | --serve) ;;
  *) fail "Usage: tools/docs.sh [--serve]" ;;
esac

file=requirements-docs.txt hashes=()
[ "${LOCKED:-0}" = 0 ] || file=requirements-lock/$file hashes=(--no-deps --require-hashes)
wanted=$(cksum < "$root/$file")
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
  base=${PYTHON:-python3}
  [ -x "$environment/bin/python" ] || "$base" -m venv "$environment" ||
    fail "Could not create $environment: apt-get install python3-venv, or set PYTHON to another Python."
  echo "Installing MkDocs into .venv-docs (half a minute, once) …" >&2
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check ${hashes[@]+"${hashes[@]}"} -r "$root/$file" ||
    fail "Installation failed: see pip's message above, then run the same command again."
  echo "$wanted" > "$stamp"
fi
cd "$root"
export NO_MKDOCS_2_WARNING=1
[ "${1:-}" != --serve ] || exec "$environment/bin/python" -m mkdocs serve --dev-addr 127.0.0.1:8001
"$environment/bin/python" -m mkdocs --quiet build --strict
echo "runs/site/index.html" >&2

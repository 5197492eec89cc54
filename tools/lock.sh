#!/usr/bin/env bash
# Write requirements-lock/: the packages of the requirement files and their dependencies, with hashes of their files.
# Needs uv (pip install uv) and PyPI. UV=/path/to/uv selects it.
# Usage: tools/lock.sh
set -euo pipefail
root=$(CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
[ $# -eq 0 ] || { echo "Usage: tools/lock.sh (it takes no arguments)" >&2; exit 1; }
files=(requirements.txt requirements-dev.txt)
all=$(mktemp -d)
trap 'rm -rf "$all"' EXIT
compile() { "${UV:-uv}" pip compile --quiet --no-header --no-annotate --no-emit-index-url --universal --python-version "${minimum:-3.11}" "$@"; }

# fairseq is installed without its dependencies (scripts/env.sh).
grep -v '^fairseq-fixed' requirements.txt > "$all/requirements.txt"
cp requirements-dev.txt "$all"

# One version of each package for all files, for Python 3.11 and later.
compile "${files[@]/#/$all/}" -o "$all/versions.txt"
# No single file of torch fits all machines; its dependencies on Linux are for GPUs.
left_out=(--no-emit-package torch --no-emit-package triton)
for name in $(sed -nE 's/^((nvidia|cuda)-[a-z0-9-]+).*/\1/p' "$all/versions.txt" | sort -u); do
  left_out+=(--no-emit-package "$name")
done
mkdir -p requirements-lock
for file in "${files[@]}"; do
  compile --generate-hashes "${left_out[@]}" -c "$all/versions.txt" "$all/$file" -o "requirements-lock/$file"
done
grep '^fairseq-fixed' requirements.txt | compile --generate-hashes --no-deps - >> requirements-lock/requirements.txt
# pymdown-extensions wants no earlier one.
minimum=3.11.5 compile --generate-hashes -c "$all/versions.txt" requirements-docs.txt -o requirements-lock/requirements-docs.txt

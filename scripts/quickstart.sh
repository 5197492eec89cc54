#!/usr/bin/env bash
# Adapt Firefox's English–Portuguese model to six products, compare and use it: ten minutes on two CPU cores.
# All output is written to runs/quickstart. It can be stopped with Ctrl-C and started again.
set -euo pipefail
scripts=$(CDPATH= cd "$(dirname "$0")" && pwd)
cd "$scripts/.."
source scripts/env.sh
config=${1:-configs/quickstart.yaml}

scripts/fairseq-ext prepare "$config"        # the model, and translation catalogues of six products
scripts/fairseq-ext teacher "$config"        # the domain classifier that the gates learn from
# Plain adapters, which need the product's name, and gated ones, which do not; and the rival: all weights trained.
for system in ad gad mix; do
  scripts/fairseq-ext train "$config" "$system"
done
scripts/fairseq-ext decode "$config"         # the held-out sentences and general text, by every system
scripts/fairseq-ext score "$config"          # the table, and which system to deploy
scripts/fairseq-ext report "$config"         # the same with figures and sentences side by side
lines=$(printf '%s\n' 'Close the ticket' 'Delete this order' 'Strings')
for route in base tickets cms translation; do
  printf '\n%s:\n' "$route"
  scripts/fairseq-ext translate "$config" --system ad --route "$route" --input - <<< "$lines"
done

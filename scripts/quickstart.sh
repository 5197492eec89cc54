#!/usr/bin/env bash
# Train, use and score gated adapters on real text, from scratch: twelve minutes on two CPU cores.
# All output is written to runs/quickstart. It can be stopped with Ctrl-C and started again.
set -euo pipefail
scripts=$(CDPATH= cd "$(dirname "$0")" && pwd)
cd "$scripts/.."
source scripts/env.sh
config=${1:-configs/quickstart.yaml}

scripts/fairseq-ext prepare "$config"        # translation catalogues of seven products, English–German
scripts/fairseq-ext teacher "$config"        # the domain classifier that the gates learn from
# One model for all products; initialised from it, plain adapters, which need the product's name, and gated ones, which
# do not; and the control: the first model, trained further for as long.
for system in mix mix-continued ad gad; do
  scripts/fairseq-ext train "$config" "$system"
done
scripts/fairseq-ext translate "$config"      # the held-out sentences, by every system
scripts/fairseq-ext score "$config"
echo
printf '%s\n' 'Show all events' 'Show all events in the family tree' 'Show all events of this ticket shop' |
  scripts/fairseq-ext translate "$config" --system gad --input -

#!/usr/bin/env bash
# Translate standard input with a trained system by fairseq-interactive: with gates, no domain is needed.
#
#   echo "Show all events" | bash scripts/translate.sh
#   echo "Show all events" | SYSTEM=ad DOMAIN=tickets bash scripts/translate.sh
set -euo pipefail
source "$(dirname "$0")/pipeline.sh"

SYSTEM=${SYSTEM:-gad}   # a folder of $SYSTEMS
DOMAIN=${DOMAIN:-}      # plain adapters need one; gates do not
BEAM=${BEAM:-5}

options=(--path "$SYSTEMS/$SYSTEM/checkpoint_best.pt" --task multi_domain_translation
  --source-lang "$SRC" --target-lang "$TGT" --beam "$BEAM" --buffer-size 64 --max-tokens 8000
  --bpe sentencepiece --sentencepiece-model "$DATA/sentencepiece.model")
[ -z "$DOMAIN" ] || options+=(--domain "$DOMAIN")
[ -e "$SYSTEMS/$SYSTEM/checkpoint_best.pt" ] || fail "$SYSTEMS/$SYSTEM: not trained; run scripts/train_gpu.sh, or set SYSTEM."

# Lines D-NUMBER, SCORE, TEXT are the translations; add --print-gates for the weights of the domains (lines G-NUMBER).
fairseq-interactive "$DATA" "${options[@]}" | sed -un 's/^D-[0-9]*\t[^\t]*\t//p'

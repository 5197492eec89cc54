#!/usr/bin/env bash
# Score every system on every test set: chrF and BLEU with significance by sacrebleu, and COMET (Tables 4, 10 and 11).
#
#   SYSTEMS_TO_SCORE="base mix ad gad" bash scripts/evaluate.sh
#   COMET_PYTHON=.venv-comet/bin/python COMET_MODEL=wmt22/checkpoints/model.ckpt bash scripts/evaluate.sh
#
# p-values compare with the first system by paired bootstrap (Koehn 2004). Translations are kept in $WORK/translations.
set -euo pipefail
source "$(dirname "$0")/pipeline.sh"

CHOSEN=${SYSTEMS_TO_SCORE:-base ft mix tag ad ad-classifier gad}
BEAM=${BEAM:-5}
[ -e "$DATA/domains.txt" ] || fail "$DATA: not found; run data-prep/filter.sh first, with the same WORK."
domains=$(cat "$DATA/domains.txt")

# translate NAME SYSTEM SUBSET OPTION…: write $WORK/translations/NAME/DOMAIN.TGT, unless they are newer than the system.
translate() {
  local folder=$WORK/translations/$1 checkpoint=$SYSTEMS/$2/checkpoint_best.pt subset=$3 number=0 domain end
  shift 3
  [ ! -e "$checkpoint" ] || [ "$folder/.$subset" -nt "$checkpoint" ] && return
  mkdir -p "$folder"
  fairseq-generate "$DATA" --gen-subset "$subset" --path "$checkpoint" --task multi_domain_translation "$@" \
    --source-lang "$SRC" --target-lang "$TGT" --beam "$BEAM" --max-tokens 8000 \
    --bpe sentencepiece --sentencepiece-model "$DATA/sentencepiece.model" > "$folder/generate.txt" 2> "$folder/generate.log" ||
    fail "$name: fairseq-generate failed; see $folder/generate.log."
  # Lines D-NUMBER, SCORE, TEXT in the order of batches become the lines of each test set in its order.
  sed -n 's/^D-\([0-9]*\t\)[^\t]*\t/\1/p' "$folder/generate.txt" | sort -n | cut -f 2- > "$folder/all.txt"
  for domain in $(if [ "$subset" = test ]; then echo "$domains"; else echo "${subset#test:}"; fi); do
    end=$((number + $(wc -l < "$WORK/splits/$domain/test.$SRC")))
    sed -n "$((number + 1)),${end}p" "$folder/all.txt" > "$folder/$domain.$TGT"
    number=$end
  done
  touch "$folder/.$subset"
}

for name in $CHOSEN; do
  case $name in
    ft) for domain in $domains; do translate ft "ft-$domain" "test:$domain"; done ;;
    tag) translate tag tag test --domain-tags --domain-source oracle ;;
    ad) translate ad ad test --domain-source oracle ;;
    ad-classifier) translate ad-classifier ad test --domain-source classifier --teacher-dir "$WORK/teacher" ;;
    gad) translate gad gad test --domain-source none ;;
    *) translate "$name" "$name" test ;;
  esac
done

for domain in $domains; do
  found=() test=$WORK/splits/$domain/test
  for name in $CHOSEN; do
    [ ! -e "$WORK/translations/$name/$domain.$TGT" ] || found+=("$WORK/translations/$name/$domain.$TGT")
  done
  [ ${#found[@]} -gt 0 ] || fail "$SYSTEMS: has none of the systems $CHOSEN; run scripts/train_gpu.sh."
  significance=()
  [ ${#found[@]} -eq 1 ] || significance=(--paired-bs --quiet)
  echo "== $domain"
  "$PYTHON" -m sacrebleu "$test.$TGT" -i "${found[@]}" -m chrf bleu -f text "${significance[@]}"
  [ -z "${COMET_PYTHON:-}" ] || "$COMET_PYTHON" -m comet.cli.score -s "$test.$SRC" -r "$test.$TGT" -t "${found[@]}" \
    --model "${COMET_MODEL:?set it to a local checkpoint}" --only_system
done

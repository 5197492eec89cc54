#!/usr/bin/env bash
# Filter parallel text of several domains, split it, and binarise it for fairseq-train.
#
#   CORPORA=corpora SRC=en TGT=pt BASE=opus-mt-en-pt bash data-prep/filter.sh
#
# Klimaszewski et al. (2023), section 4.1. Change a line and run it again: steps with the same inputs are not repeated.
# Read $WORK/clean/report.html, which shows what each filter dropped and why.
set -euo pipefail
source "$(dirname "$0")/../scripts/pipeline.sh"

CORPORA=${CORPORA:-corpora}   # DOMAIN.SRC and DOMAIN.TGT, or DOMAIN.tmx, DOMAIN.tsv, or OPUS's DOMAIN.zip
BASE=${BASE:-}                # model whose subwords are used: Marian, Hugging Face, or imported; none: train subwords
HELD_OUT=${HELD_OUT:-1000}    # pairs of each domain for validation, and for test
VOCABULARY=${VOCABULARY:-32000}

# 1. All forms become line-aligned text, in NFC without control characters: $WORK/text/DOMAIN.LANG.
[ -d "$CORPORA" ] || fail "$CORPORA: not found; set CORPORA to a folder with DOMAIN.$SRC and DOMAIN.$TGT."
mkdir -p "$WORK/text"
for entry in "$CORPORA"/*.{"$SRC","$TGT",tmx,tsv,zip}; do
  [ -e "$entry" ] || continue
  domain=$(basename "${entry%.*}")
  [ -e "$WORK/text/$domain.$TGT" ] && continue
  case $entry in *."$SRC" | *."$TGT") entry="${entry%.*}.{lang}" ;; esac
  fairseq-ext corpora "$domain" "$entry" --source-lang "$SRC" --target-lang "$TGT" --output "$WORK/text"
done

# 2. The filters, in this order (section 4.1: length, ratio, language, dictionary). A pair that a filter drops reaches
#    none after it. No held-out sentence is also in the training text, whatever its case or punctuation.
cat > "$WORK/data.yaml" <<YAML
kind: translation
work_dir: $WORK
source_lang: $SRC
target_lang: $TGT
corpora: {folder: $WORK/text}
clean:
  normalise: {}                      # punctuation as in Moses
  filters:
    length: {max_words: 100}         # words of a side
    length_ratio: {max_ratio: 3}     # of the longer to the shorter side
    language: {}                     # both sides, by py3langid
    dictionary: {min_share: 0.2}     # share of words with a translation in the other side, by a learned dictionary
  deduplicate: pair
split: {valid: $HELD_OUT, test: $HELD_OUT}
$(if [ -n "$BASE" ]; then echo "base: {import: $BASE}"; else echo "subwords: {vocab_size: $VOCABULARY}"; fi)
YAML
fairseq-ext prepare "$WORK/data.yaml" --to encoded

# 3. fairseq's data, a folder for each domain; their order in domains.txt is the order of adapters and gates.
vocabulary=$SYSTEMS/base/vocabulary
[ -n "$BASE" ] || vocabulary=$WORK/subwords
dictionary() { ls "$vocabulary/dict.$1.txt" 2>/dev/null || echo "$vocabulary/dict.txt"; }
while read -r domain; do
  [ "$DATA/$domain/.finished" -nt "$WORK/encoded/domains.txt" ] && continue
  rm -rf "${DATA:?}/$domain"
  fairseq-preprocess --source-lang "$SRC" --target-lang "$TGT" --destdir "$DATA/$domain" --workers "$(nproc)" \
    --srcdict "$(dictionary "$SRC")" --tgtdict "$(dictionary "$TGT")" --trainpref "$WORK/encoded/$domain/train" \
    --validpref "$WORK/encoded/$domain/valid" --testpref "$WORK/encoded/$domain/test"
  touch "$DATA/$domain/.finished"
done < "$WORK/splits/domains.txt"
for lang in "$SRC" "$TGT"; do cp "$(dictionary "$lang")" "$DATA/dict.$lang.txt"; done
cp "$vocabulary"/sentencepiece*.model "$WORK/encoded/domains.txt" "$DATA"
echo "Next: bash data-prep/train_teacher.sh"

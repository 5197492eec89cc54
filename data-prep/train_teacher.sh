#!/usr/bin/env bash
# Train the domain classifier, which labels all sentences for the gates (Klimaszewski et al. 2023, section 3.2).
#
#   BACKEND=transformers MODEL=roberta-base bash data-prep/train_teacher.sh      # the paper's
#
# Every training sentence is labelled by a model that was not trained on it: with 4 folds, each by that of the other 3.
# Writes $WORK/teacher/DOMAIN/SPLIT.npy, a row of probabilities for each sentence, for --teacher-dir of fairseq-train.
set -euo pipefail
source "$(dirname "$0")/../scripts/pipeline.sh"

BACKEND=${BACKEND:-tfidf}   # tfidf (a minute) or transformers (fine-tunes MODEL)
MODEL=${MODEL:-}            # folder of a Hugging Face encoder, for transformers
FOLDS=${FOLDS:-4}

[ -e "$WORK/data.yaml" ] || fail "$WORK/data.yaml: not found; run data-prep/filter.sh first, with the same WORK."
{
  cat "$WORK/data.yaml"
  echo "teacher: {backend: $BACKEND, folds: $FOLDS${MODEL:+, model: $MODEL}}"
} > "$WORK/teacher.yaml"
fairseq-ext teacher "$WORK/teacher.yaml"

# F1 by domain and the confusion of the test sentences (Figures 4 and 5): rows are true domains.
"$PYTHON" - "$WORK/teacher/teacher.json" <<'PYTHON'
import json
import sys

record = json.load(open(sys.argv[1], encoding="utf-8"))
test = record["metrics"]["test"]
print(f"{'test':<16}{'F1':>7}   labelled as {', '.join(record['domains'])}")
for (name, row), counts in zip(test["per_domain"].items(), test["confusion"]):
    print(f"{name:<16}{row['f1']:>7.3f}   {' '.join(f'{count:>5}' for count in counts)}")
print(f"{'all':<16}{test['micro_f1']:>7.3f}")
PYTHON
echo "Next: bash scripts/train_gpu.sh"

#!/usr/bin/env bash
# Train BASE, FT, MIX, TAG, AD and GAD with fairseq-train (Klimaszewski et al. 2023, section 4.3), on one or more GPUs.
#
#   bash scripts/train_gpu.sh                        # all stages; finished ones are skipped, others are resumed
#   STAGE="ad gad" START=base bash scripts/train_gpu.sh
#   CHECK=1 bash scripts/train_gpu.sh                # 60 updates of each stage: words a second and memory
#
# With --cpu it trains without a GPU. All systems start from BASE; adapters and gates from START.
set -euo pipefail
source "$(dirname "$0")/pipeline.sh"

START=${START:-mix}                       # mix, as in the paper, or base: a base that must not change
BASE_ARCH=${BASE_ARCH:-transformer}       # if filter.sh imported no base
LR=${LR:-5e-4} WARMUP=${WARMUP:-4000}     # of BASE, AD and GAD
TUNING_LR=${TUNING_LR:-1e-4}              # of FT, MIX and TAG
UPDATES=${UPDATES:-100000}                # at most; training stops after 4 validations without progress
SMOOTHING=${SMOOTHING:-0.1}               # 0 for a base that was trained without dropout, such as Firefox's
BATCH=${BATCH:-4096}                      # target tokens of a GPU in an update; lower it if memory runs out
PROCESSES=${PROCESSES:-$(nvidia-smi --list-gpus 2>/dev/null | wc -l || true)}

common=("$DATA" --task multi_domain_translation --source-lang "$SRC" --target-lang "$TGT" --upsampling max
  --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --lr-scheduler inverse_sqrt --warmup-updates "$WARMUP"
  --max-tokens "$BATCH" --max-update "$UPDATES" --patience 4 --no-epoch-checkpoints --seed 1 --log-format simple)
translation=(--criterion label_smoothed_cross_entropy --label-smoothing "$SMOOTHING")
if [ "${1:-}" = --cpu ]; then
  PROCESSES=${CPU_PROCESSES:-1}
  common+=(--cpu --distributed-backend gloo --ddp-backend legacy_ddp)
else
  [ "$PROCESSES" -gt 0 ] || fail "No NVIDIA GPU found. bash scripts/train_gpu.sh --cpu trains without one."
  common+=(--bf16)
fi
if [ -n "${CHECK:-}" ]; then
  common+=(--max-update 60 --disable-validation --log-interval 20)
  trained=$WORK/check
fi
trained=${trained:-$SYSTEMS}

best() { echo "$SYSTEMS/$1/checkpoint_best.pt"; }
# train SYSTEM OPTION…: train a system, or go on where it stopped.
train() {
  local folder=$trained/$1
  shift
  [ -e "$folder/.finished" ] && return
  mkdir -p "$folder"
  if ! fairseq-train "${common[@]}" "$@" --save-dir "$folder" |& tee -a "$folder/train.log"; then
    ! grep -q 'out of memory' "$folder/train.log" || fail "The GPU has too little memory: lower BATCH (now $BATCH)."
    fail "$folder/train.log: training stopped; see its end."
  fi
  [ -z "${CHECK:-}" ] || grep -oE '(wps|gb_free)=[0-9.]+' "$folder/train.log" | tail -n 2
  touch "$folder/.finished"
}
# tune SYSTEM OPTION…: train every weight of BASE further.
tune() {
  train "$@" --arch transformer --finetune-from-model "$(best base)" --lr "$TUNING_LR" "${translation[@]}"
}

# An imported base has no symbols for tags.
tag=$(grep -q '^<domain:' "$DATA/dict.$SRC.txt" && echo tag) || true
for stage in ${STAGE:-base ft mix $tag ad gad}; do
  case $stage in
    # Transformer base, unless filter.sh imported a base; section 4.3.
    base) [ -e "$(best base)" ] || train base --arch "$BASE_ARCH" --share-all-embeddings \
      --dropout 0.1 --lr "$LR" "${translation[@]}" ;;
    # Every weight, on one domain: the best that a domain of its own can have, and as many models as domains.
    ft) while read -r domain; do
      tune "ft-$domain" --train-domains "$domain"
    done < "$DATA/domains.txt" ;;
    # Every weight, on all domains together; with a tag before the source sentence (Kobus et al. 2017).
    mix) tune mix ;;
    tag) tune tag --domain-tags ;;
    # An adapter for each domain in every layer, on a frozen model; section 3.1.
    ad) train ad --arch transformer_domain_adapter --finetune-from-model "$(best "$START")" --lr "$LR" \
      "${translation[@]}" ;;
    # Adapters and gates together; the gates learn from the classifier: L = L_CE + alpha L_KL; section 3.2.
    gad) train gad --arch transformer_gated_adapter --finetune-from-model "$(best "$START")" --lr "$LR" \
      --criterion label_smoothed_cross_entropy_with_kd_gate --label-smoothing "$SMOOTHING" \
      --teacher-dir "$WORK/teacher" --gate-temperature 2 --gate-loss-weight 0.5 --gate-loss-temperature 0.1 --gate-target probs ;;
    *) fail "STAGE: unknown stage $stage; choose from base ft mix tag ad gad." ;;
  esac
done

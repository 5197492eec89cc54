# shellcheck shell=bash disable=SC2034,SC2016
# What the five pipelines share; sourced by them: folders, languages, the Python to use, and commands by their names.
# They install nothing: activate an environment with the packages of requirements.txt, or set PYTHON.

WORK=${WORK:-runs/pipeline}     # all output
SRC=${SRC:-en} TGT=${TGT:-pt}   # languages, as in the names of the corpus files
DATA=$WORK/data-bin
SYSTEMS=$WORK/systems

root=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} PYTHONSAFEPATH=1 PYTHONWARNINGS=ignore
PYTHON=${PYTHON:-python}

fail() { echo "$*" >&2; exit 1; }

fairseq-ext() { "$PYTHON" -m fairseq_ext.cli "$@"; }
fairseq-preprocess() { "$PYTHON" -m fairseq_cli.preprocess "$@"; }
# On $PROCESSES GPUs. fairseq reads torchrun's variables only on some machines, so they are given as options.
fairseq-train() {
  local command=("$PYTHON" -m fairseq_cli.train)
  [ "$PROCESSES" -eq 1 ] || command=("$PYTHON" -m torch.distributed.run --nproc-per-node "$PROCESSES" --no-python bash -c
    'exec "$0" -m fairseq_cli.train "$@" --distributed-world-size "$WORLD_SIZE" --distributed-rank "$RANK" \
      --device-id "$LOCAL_RANK" --distributed-init-method env:// --distributed-no-spawn' "$PYTHON")
  "${command[@]}" "$@" --user-dir "$root/fairseq_ext"
}
fairseq-generate() { "$PYTHON" -m fairseq_cli.generate "$@" --user-dir "$root/fairseq_ext"; }
fairseq-interactive() { "$PYTHON" -m fairseq_cli.interactive "$@" --user-dir "$root/fairseq_ext"; }

"$PYTHON" -c 'import fairseq' 2>/dev/null ||
  fail "$PYTHON has no fairseq: activate an environment made with pip install -r requirements.txt, or set PYTHON."

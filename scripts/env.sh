# Create the virtual environment .venv, shared by all scripts, unless it exists.
# Sourced by the scripts; sets $root and $python. PYTHON=/path/to/python3 selects the interpreter, TORCH=cuda installs
# torch for GPUs, LOCKED=1 installs exactly the files in requirements-lock/, by their hashes, and keeps .venv at these
# versions.

root=$(CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
# The current directory may contain yaml.py or random.py, which must not hide a library.
export PYTHONSAFEPATH=1

fail() { echo "$*" >&2; exit 1; }

# fits PYTHON: check that its version is one that this project is tested with.
fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

find_python() {
  local name
  for name in python3.11 python3.12 python3.13 python3; do
    fits "$name" && { echo "$name"; return; }
  done
  fail "No Python 3.11, 3.12 or 3.13 found: install one, or set PYTHON to its path."
}

# entries FILE NAME…: print the lines of a requirement or lock file for these packages; with - before the names, all
# other lines.
entries() {
  local file=$1; shift
  awk -v names=" $* " '/^[A-Za-z]/ { split($1, part, "=="); wanted = index(names, " " part[1] " ") > 0 }
    wanted != (names ~ /^ - /) && /^[A-Za-z ]/' "$root/$file"
}

pip_install() {
  "$python" -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --no-build-isolation "$@" ||
    fail "Installation failed: see pip's message above, then run the same command again."
}

# install NAME FILE: update .venv to this requirement file, once per content.
install() {
  local stamp=$root/.venv/.installed-$1 file=$2 lock= wanted
  [ "${LOCKED:-0}" = 0 ] || touch "$root/.venv/.locked"
  [ ! -e "$root/.venv/.locked" ] || lock=requirements-lock/$file
  wanted=$(CDPATH= cd "$root" && cat "$file" $lock | cksum)
  [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return
  echo "Installing $file into .venv (about 5 minutes, once) …" >&2
  # fairseq builds from source against the installed torch. Its dependency torchaudio is left out: it is only for
  # speech, fits a single torch version, and its GPU builds break transformers with a torch for CPUs.
  if [ "$file" != requirements.txt ]; then
    pip_install ${lock:+--no-deps --require-hashes} -r "$root/${lock:-$file}"
  elif [ -z "$lock" ]; then
    pip_install $(torch_index) -r <(entries "$file" setuptools wheel cython numpy torch)
    pip_install --no-deps -r <(entries "$file" fairseq-fixed)
    pip_install -r <(entries "$file" - fairseq-fixed)
  else
    # torch and its GPU dependencies differ by machine and index, so torch is pinned separately.
    pip_install --no-deps --require-hashes -r <(entries "$lock" setuptools wheel)
    pip_install --no-deps --require-hashes -r <(entries "$lock" - fairseq-fixed)
    pip_install $(torch_index) -r <(entries "$file" torch)
    pip_install --no-deps --require-hashes -r <(entries "$lock" fairseq-fixed)
  fi
  # Make this package importable from any directory; fairseq looks up a --user-dir by name next to itself.
  ln -sfn ../../../../fairseq_ext "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/fairseq_ext"
  echo "$wanted" > "$stamp"
}

# On Linux the default torch includes 3 GB for GPUs. The CPU build has a separate index and a higher version. That index
# is not used if pip is configured for other indexes, which may be the only reachable ones.
torch_index() {
  [ "${TORCH:-cpu}" = cpu ] && [ "$(uname)" = Linux ] || return 0
  case $("$python" -m pip config list) in
    *index-url=* | *find-links=* | *no-index=*) ;;
    *) echo "--extra-index-url https://download.pytorch.org/whl/cpu" ;;
  esac
}

if [ ! -e "$root/.venv/.installed-core" ] || [ ! -x "$python" ]; then
  base=${PYTHON:-$(find_python)} && [ -n "$base" ] || exit 1
  fits "$base" || fail "$base is not Python 3.11, 3.12 or 3.13: set PYTHON to one of these."
  "$base" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
    fail "$base has no headers (Python.h), which fairseq needs to build: apt-get install python3-dev (Debian, Ubuntu), dnf install python3-devel (Fedora)."
  command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null ||
    fail "No C++ compiler found, which fairseq needs to build: apt-get install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora), xcode-select --install (macOS)."
  # An interrupted installation may have left a Python without pip.
  "$python" -m pip --version >/dev/null 2>&1 || "$base" -m venv --clear "$root/.venv" || fail "Could not create $root/.venv: apt-get install python3-venv."
fi
install core requirements.txt
[ -x "$root/.venv/bin/fairseq-ext" ] || {
  printf '#!/usr/bin/env bash\nexec "$(dirname "$0")/../../scripts/fairseq-ext" "$@"\n' > "$root/.venv/bin/fairseq-ext"
  chmod +x "$root/.venv/bin/fairseq-ext"
}

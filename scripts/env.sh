# Create the virtual environment .venv, shared by all scripts, unless it is there already.
# Sourced by them; sets $root and $python. PYTHON=/path/to/python3.11 chooses the interpreter.

root=$(CDPATH= cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}

fail() { echo "$*" >&2; exit 1; }

# install NAME FILE…: bring .venv to what these requirement files ask for, once per content.
install() {
  local stamp=$root/.venv/.installed-$1 wanted
  shift
  wanted=$(CDPATH= cd "$root" && cat "$@" | cksum)
  [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return
  echo "Installing $* into .venv (about 5 minutes, once) …" >&2
  for file in "$@"; do
    # fairseq builds from source against the torch that is installed, not against one of its own.
    "$python" -m pip install --quiet --disable-pip-version-check --no-build-isolation -r "$root/$file" ||
      fail "Installation failed: see pip's message above, then run the same command again."
  done
  echo "$wanted" > "$stamp"
}

if [ ! -e "$root/.venv/.installed-core" ]; then
  base=${PYTHON:-python3.11}
  command -v "$base" >/dev/null || fail "Python 3.11 not found: install python3.11, or set PYTHON to its path."
  "$base" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
    fail "$base is not Python 3.11, the version fairseq is pinned to here: set PYTHON to a python3.11."
  command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null ||
    fail "No C++ compiler, which fairseq builds with: apt-get install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora), xcode-select --install (macOS)."
  [ -x "$python" ] || "$base" -m venv "$root/.venv" || fail "Could not create $root/.venv: apt-get install python3.11-venv."
fi
install core requirements-build.txt requirements.txt

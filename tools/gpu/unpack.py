"""Unpack the wheels of ``tools/check_gpu.sh --bundle`` that this Python lacks, and print their folder.

Runs with the Python of the GPU's machine, before this project can be imported.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "runs" / "wheels"
PACKAGES = ROOT / "runs" / f"packages-{sys.version_info[0]}.{sys.version_info[1]}"
# Large packages of which fairseq only imports names, without calling them here.
_NAMES_ONLY = {"sklearn": "metrics", "scipy": "stats"}
# Packages that must have this version, even if another one is installed.
_EXACT = {"hydra_core", "omegaconf", "antlr4_python3_runtime", "fairseq_fixed"}


def main() -> None:
    try:
        importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit(f"{sys.executable} has no torch; set PYTHON to one that has") from None
    wheels = [path for path in sorted(WHEELS.glob("*.whl")) if is_missing(path.name.split("-")[0])]
    if not list(WHEELS.glob("*.whl")):
        raise SystemExit(f"{WHEELS}: no wheels; tools/check_gpu.sh --bundle makes them where there is a network")
    if not list(WHEELS.glob("fairseq*.whl")):
        build()
        wheels = [*wheels, *WHEELS.glob("fairseq*.whl")]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-compile"]
    install = [sys.executable, "-m", "pip", "install", *quiet, "--no-index", "--no-deps", "--upgrade"]
    if subprocess.run([*install, "--target", str(PACKAGES), *map(str, wheels)], check=False).returncode:
        raise SystemExit(f"{WHEELS}: not for {sys.executable}; make them by tools/check_gpu.sh --bundle --python 3.N")
    for name, module in _NAMES_ONLY.items():
        if importlib.util.find_spec(name) is None:
            (PACKAGES / name).mkdir(exist_ok=True)
            (PACKAGES / name / "__init__.py").write_text("")
            (PACKAGES / name / f"{module}.py").write_text("def __getattr__(name):\n    return None\n")
    print(PACKAGES)


def is_missing(name: str) -> bool:
    """Return whether a package has to be unpacked."""
    if name in _EXACT:
        return True
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return True
    return False


def build() -> None:
    """Build fairseq from the source in the bundle."""
    from bundle import build_fairseq

    [source] = WHEELS.glob("fairseq*.tar.gz")
    build_fairseq(source, sys.executable, WHEELS)


if __name__ == "__main__":
    main()

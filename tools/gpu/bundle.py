"""Build a folder of wheels for running ``tools/check_gpu.sh`` on a machine with torch but without network access.

Run by ``tools/check_gpu.sh --bundle`` on this machine; the folder is copied with the project. fairseq is built
without the extensions compiled against torch, which this project does not use, so that it works with any torch. It is
built for another Python if that is installed here; otherwise the folder contains fairseq's source, which is built on
the target machine.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from fairseq_ext.base.errors import InputError, run_command

WHEELS = ROOT / "runs" / "wheels"
MOST_MIB = 60
_LEFT_OUT = re.compile("[^/]+/(examples|fairseq/examples|tests)/")
# Packages imported by training, translating and the tests marked gpu, with their dependencies, in the versions
# installed here.
NEEDED = (
    *("hydra-core", "omegaconf", "antlr4-python3-runtime", "regex", "sacrebleu", "portalocker", "tabulate", "colorama"),
    *("lxml", "bitarray", "cffi", "pycparser", "tqdm", "packaging", "PyYAML", "numpy", "sentencepiece", "safetensors"),
    *("backports.zstd", "pydantic", "pydantic-core", "annotated-types", "typing-extensions", "typing-inspection"),
    *("pytest", "pluggy", "iniconfig", "pygments", "hypothesis", "sortedcontainers", "cython", "setuptools", "wheel"),
)
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
# Replaces torch.utils.cpp_extension in fairseq's setup.py: extensions that need torch are not built.
_NO_TORCH = """
from setuptools import Extension
from setuptools.command.build_ext import build_ext

class CppExtension(Extension):
    pass

class BuildExtension(build_ext):
    def finalize_options(self):
        super().finalize_options()
        self.extensions = [each for each in self.extensions if not isinstance(each, CppExtension)]
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/check_gpu.sh --bundle", description=__doc__)
    parser.add_argument(
        "--python", default=f"{sys.version_info[0]}.{sys.version_info[1]}", help="Python version of the GPU's machine"
    )
    parser.add_argument("--wheels", type=Path, default=WHEELS, help="folder to write; replaced if it exists")
    options = parser.parse_args()
    if not re.fullmatch(r"3\.\d+", options.python):
        raise InputError(f"--python: {options.python!r} is not a version; give one such as 3.12")
    shutil.rmtree(options.wheels, ignore_errors=True)
    options.wheels.mkdir(parents=True)
    download(options.wheels, options.python)
    source = fairseq_source(options.wheels)
    if python := find_python(options.python):
        build_fairseq(source, python, options.wheels)
        source.unlink()
    else:
        print(
            f"Python {options.python} is not installed here; fairseq will be built on the GPU's machine",
            file=sys.stderr,
        )
    size = sum(path.stat().st_size for path in options.wheels.iterdir()) / 2**20
    if size > MOST_MIB:
        raise InputError(f"{options.wheels}: has {size:.0f} MiB, more than {MOST_MIB}; remove packages from NEEDED")
    print(f"{options.wheels}: {len(list(options.wheels.iterdir()))} files, {size:.0f} MiB, for Python {options.python}")


def download(folder: Path, version: str) -> None:
    """Download the wheels of NEEDED; build pure Python packages without a wheel for this Python."""
    import importlib.metadata

    pinned = [f"{name}=={importlib.metadata.version(name)}" for name in NEEDED]
    platforms = [word for name in _PLATFORMS for word in ("--platform", name)]
    target = ["--python-version", version, "--implementation", "cp", *platforms]
    pure = [name for name in pinned if name.startswith("antlr4")]
    pip("download", "--only-binary", ":all:", *target, "-d", folder, *(name for name in pinned if name not in pure))
    pip("wheel", "-w", folder, *pure)


def fairseq_source(folder: Path) -> Path:
    """Return the path of fairseq's source, without its large examples."""
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    wanted = next(line for line in lines if line.startswith("fairseq-fixed"))
    with tempfile.TemporaryDirectory() as name:
        pip("download", "--no-build-isolation", "--no-binary", ":all:", "-d", name, wanted)
        [archive] = Path(name).glob("*.tar.gz")
        made = folder / archive.name
        with tarfile.open(archive) as given, tarfile.open(made, "w:gz") as kept:
            for member in given:
                if not _LEFT_OUT.match(member.name):
                    kept.addfile(member, given.extractfile(member) if member.isfile() else None)
    return made


def build_fairseq(source: Path, python: str, folder: Path) -> None:
    """Build a fairseq wheel for a Python, which needs its headers and a C++ compiler, in a separate environment."""
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([python, "-m", "venv", f"{name}/venv"], check=True)
        built_by = f"{name}/venv/bin/python"
        quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
        tools = ["cython", "numpy", "packaging", "setuptools", "wheel"]
        _run([built_by, "-m", "pip", "install", *quiet, "--upgrade", "--find-links", str(folder), *tools])
        stub = Path(name) / "stub" / "torch" / "utils"
        stub.mkdir(parents=True)
        for module in (stub.parent / "__init__.py", stub / "__init__.py"):
            module.write_text("")
        (stub / "cpp_extension.py").write_text(_NO_TORCH)
        wheel = [built_by, "-m", "pip", "wheel", *quiet, "--no-build-isolation", "-w", str(folder), str(source)]
        _run(wheel, PYTHONPATH=str(stub.parents[1]))


def find_python(version: str) -> str | None:
    """Return the path of a Python of this version on this machine; None if there is none."""
    if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return sys.executable
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for found in (shutil.which(f"python{version}"), *map(str, installed)):
        # pyenv's shims only work for enabled versions.
        if found and not subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
            return found
    return None


def pip(command: str, *words: object) -> None:
    """Run pip on single packages.

    Raises:
        InputError: if it fails; pip's message is shown above.
    """
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps"]
    _run([sys.executable, "-m", "pip", command, *quiet, *map(str, words)])


def _run(command: list[str], **environment: str) -> None:
    if subprocess.run(command, env=os.environ | environment, check=False).returncode:
        raise InputError(f"{' '.join(command[:5])} … failed; see its message above")


if __name__ == "__main__":
    run_command(main)

"""Metadata, pinned requirements and documents name the same packages, and files travel with the package."""

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fairseq_ext

ROOT = Path(__file__).resolve().parents[1]
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, TOOLS = METADATA["project"], METADATA["tool"]
# What is installed only to build fairseq.
BUILD_ONLY = {"setuptools", "wheel", "cython"}
NAMED = PROJECT["optional-dependencies"]
# Extras that are installed into the scripts' environment, .venv; tools of the tests; COMET's own environment.
TOGETHER = [each for extra in ("train", "teacher", "cluster", "serve") for each in NAMED[extra]]
# Where a package is imported under another name.
IMPORTED_AS = {
    "scikit-learn": "sklearn", "PyYAML": "yaml", "Jinja2": "jinja2", "rouge-score": "rouge_score",
    "markdown-it-py": "markdown_it", "backports.zstd": "backports", "prometheus-client": "prometheus_client",
    "fairseq-fixed": "fairseq", "hydra-core": "hydra",
}  # fmt: skip
# What others import: fairseq, transformers, and SentencePiece in its file format.
OF_OTHERS = {"bitarray", "cffi", "hydra-core", "accelerate", "gguf", "protobuf"}


def pinned(file: str) -> dict[str, Requirement]:
    lines = (line.split("#")[0].strip() for line in (ROOT / file).read_text("utf-8").splitlines())
    return {each.name: each for each in map(Requirement, filter(None, lines))}


@pytest.mark.parametrize("environment", ["", "-dev", "-comet"])
def test_metadata_and_requirements_name_the_same_packages(environment: str) -> None:
    file = f"requirements{environment}.txt"
    named = NAMED[environment[1:]] if environment else PROJECT["dependencies"] + TOGETHER
    wanted, found = {each.name: each for each in map(Requirement, named)}, pinned(file)
    assert wanted.keys() == found.keys() - BUILD_ONLY | wanted.keys() & BUILD_ONLY
    for name, requirement in wanted.items():
        [pin] = found[name].specifier
        assert pin.operator == "=="
        assert requirement.specifier.contains(pin.version), name


@pytest.mark.slow
def test_whatever_is_imported_is_named_and_the_other_way_round() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "fairseq_ext").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    # COMET has an environment of its own; torchaudio is only looked for.
    foreign = {name.split(".")[0] for name in imported} - sys.stdlib_module_names
    foreign -= {"fairseq_ext", "fairseq_cli", "comet", "torchaudio"}
    names = pinned("requirements.txt").keys() - BUILD_ONLY - OF_OTHERS
    assert foreign == {IMPORTED_AS.get(name, name) for name in names}


# COMET has an environment of its own, with earlier versions.
LOCKED = sorted(path.name for path in ROOT.glob("requirements*.txt") if path.name != "requirements-comet.txt")


@pytest.mark.parametrize("file", LOCKED)
def test_lock_files_have_what_the_requirements_pin(file: str) -> None:
    text = (ROOT / "requirements-lock" / file).read_text(encoding="utf-8").replace("\\\n", " ")
    locked = defaultdict(list)  # some packages have a line for each Python
    for line in filter(None, text.splitlines()):
        requirement = Requirement(line.split(" --hash=")[0])
        locked[canonicalize_name(requirement.name)].append(requirement.specifier)
        assert [each.operator for each in requirement.specifier] == ["=="]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}( |$)", line), line
    for name, requirement in pinned(file).items():
        if name != "torch":  # its file differs by machine
            assert locked[canonicalize_name(name)] == [requirement.specifier]


def test_everything_beside_the_code_is_package_data() -> None:
    patterns = TOOLS["setuptools"]["package-data"]
    package = ROOT / "fairseq_ext"
    given = {path for pattern in patterns["fairseq_ext"] for path in package.glob(pattern)}
    files = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert given == files
    assert len(files) > 5


def test_other_files_have_the_versions_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["version"] == fairseq_ext.__version__
    assert citation["license"] == PROJECT["license"]
    supported = [name.split(" :: ")[-1] for name in PROJECT["classifiers"] if ":: 3." in name]
    script = (ROOT / "scripts" / "env.sh").read_text(encoding="utf-8")
    assert re.findall(r"python(3\.\d+)", script) == supported == ["3.11", "3.12", "3.13"]
    assert PROJECT["requires-python"] == ">=3.11,<3.14"
    assert "(3, 11) <= sys.version_info[:2] <= (3, 13)" in script


@pytest.mark.slow
def test_the_wheel_that_is_built_from_the_source_distribution_has_the_command(tmp_path: Path) -> None:
    def run(*command: str | Path, folder: Path = tmp_path) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout

    # A copy, in which setuptools may write.
    source = tmp_path / "source"
    shutil.copytree(ROOT / "fairseq_ext", source / "fairseq_ext", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    run(sys.executable, "-c", build, folder=source)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "unpacked", filter="data")
    [unpacked] = (tmp_path / "unpacked").iterdir()
    options = ("--quiet", "--no-index", "--no-deps")
    run(sys.executable, "-m", "pip", "wheel", *options, "--no-build-isolation", "-w", tmp_path, unpacked)
    [wheel] = tmp_path.glob("*.whl")

    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel)
    installed = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # What it needs is that of the tests' own environment, which comes after.
    (installed / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    assert "Translating with a trained system" in run(environment / "bin" / "fairseq-ext", "--help")
    where = run(python, "-c", "import fairseq_ext; print(fairseq_ext.__file__)").strip()
    assert Path(where).parent == installed / "fairseq_ext"
    files = {path.relative_to(ROOT) for path in (ROOT / "fairseq_ext").rglob("*") if path.suffix in (".py", ".jinja")}
    assert all((installed / path).is_file() for path in files)

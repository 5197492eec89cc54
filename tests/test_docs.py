"""What the documents say of files, options and defaults is so."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.cleaning.clean import FILTERS, Cleaning
from fairseq_ext.corpora.entries import Form, entry_form
from fairseq_ext.corpora.normalise import Normalise
from fairseq_ext.corpora.split import Split
from fairseq_ext.corpora.subwords import Subwords
from fairseq_ext.inputs.models import Section
from fairseq_ext.recipes.translation.config import Translation
from fairseq_ext.recipes.translation.sections import Corpora

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
DATA_PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
DATA_CONFIG = ROOT / "configs" / "data.yaml"
# Sections that the training commands read; the file is about data alone.
TRAINING = {"base", "teacher", "train", "translate", "evaluate", "compare"}


def rows_of(column: str) -> list[list[str]]:
    """The cells of the page's table whose first column is so named."""
    table = re.search(rf"^\| {column} \|.*\n\|[-:| ]+\|\n((?:\|.*\n)+)", DATA_PAGE, re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table[1].splitlines()]


def code_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def defaults(kind: type[Section]) -> dict[str, Any]:
    """Options of experiment files in order; those without a default are left out."""
    fields = kind.model_fields.items()
    return {item.alias or name: item.default for name, item in fields if not item.is_required()}


def assert_same(given: Mapping[str, Any], kind: type[Section]) -> None:
    """Keys in order, values and their types."""
    wanted = defaults(kind)
    assert [(key, value, type(value)) for key, value in given.items()] == [
        (key, value, type(value)) for key, value in wanted.items()
    ]


def make_files(entries: list[str], langs: tuple[str, str]) -> None:
    """Put something under every name that an entry gives, below the current directory."""
    for entry in entries:
        if entry.startswith("opus:") or "==" in entry:
            continue
        for path in {Path(entry.replace("{lang}", lang)) for lang in langs}:
            path.parent.mkdir(parents=True, exist_ok=True)
            if entry.endswith("/"):
                path.mkdir()
            elif path.suffix == ".zip":
                with zipfile.ZipFile(path, "w") as archive:
                    for lang in langs:
                        archive.writestr(f"a.{lang}", "a\n")
            else:
                path.write_bytes(b"")


def anchors_of(page: Path) -> set[str]:
    """The anchors that a code host and the site make of a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_point_to_files(path: Path) -> None:
    links = re.findall(r"\]\(([^)\s#]+)[^)]*\)", path.read_text(encoding="utf-8"))
    for link in links:
        assert link.startswith("https://") or (path.parent / link).exists(), link


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_point_to_headings(path: Path) -> None:
    for file, anchor in re.findall(r"\]\(([^)\s#]*\.md)?#([^)\s]+)\)", path.read_text(encoding="utf-8")):
        assert anchor in anchors_of(path.parent / file if file else path), f"{file}#{anchor}"


def test_table_of_filters_has_their_options() -> None:
    rows = rows_of("filter")
    assert [code_in(row[0]) for row in rows] == [[name] for name in FILTERS]
    for name, kind in FILTERS.items():
        options = next(row[2] for row in rows if row[0] == f"`{name}`")
        assert_same({key: value for text in code_in(options) for key, value in yaml.safe_load(text).items()}, kind)


def test_table_of_forms_has_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    langs = ("en", "pl")
    entries = [entry for row in rows_of("form") for entry in code_in(row[1])]
    make_files(entries, langs)
    assert {entry_form(entry, langs) for entry in entries} == set(Form)


def test_data_config_has_every_key_at_its_default() -> None:
    raw = yaml.safe_load(DATA_CONFIG.read_text(encoding="utf-8"))
    assert raw.keys() == Translation.keys() - TRAINING | {"kind"}
    assert raw["seed"] == Translation.model_fields["seed"].default
    assert_same(raw["split"], Split)
    assert_same(raw["subwords"], Subwords)
    assert_same(raw["clean"]["normalise"], Normalise)
    assert list(raw["clean"]["filters"]) == list(FILTERS)
    for name, kind in FILTERS.items():
        assert_same(raw["clean"]["filters"][name], kind)
    assert raw["clean"].keys() == Cleaning.keys()
    assert raw["corpora"].keys() == Corpora.keys()


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_architecture_has_the_packages_in_their_layers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(each["layers"] for each in project["tool"]["importlinter"]["contracts"] if each["type"] == "layers")
    rows = re.findall(r"^\| (`.*?) \|", ARCHITECTURE.partition("## Six ideas")[0], re.MULTILINE)
    named = [sorted(code.strip("/").removesuffix(".py") for code in code_in(row)) for row in rows]
    # Every package is in a layer: that contract is exhaustive.
    assert named == [layer.split(" | ") for layer in layers]


def test_architecture_names_files_that_are_there() -> None:
    named = [name for name in code_in(ARCHITECTURE) if re.fullmatch(r"[\w/]+/[\w{},]+\.py", name)]
    assert len(named) > 20
    for name in named:
        folder, _, files = name.removesuffix(".py").rpartition("/")
        for file in files.strip("{}").split(","):
            folders = ("fairseq_ext", "fairseq_ext/recipes", ".")
            assert any((ROOT / start / folder / f"{file}.py").is_file() for start in folders), name


def test_the_packages_have_no_cycle() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "measure_structure.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "imports, cycles: 0" in printed

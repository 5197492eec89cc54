"""What README and docs say of files, options, defaults, messages and results is so."""

import dataclasses
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.base.sections import Section
from fairseq_ext.criterions.label_smoothed_cross_entropy_with_kd_gate import KDGateCriterionConfig
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.sections import Corpora
from fairseq_ext.models.causal_lm import CausalLMConfig
from fairseq_ext.models.dagru_lm import DAGRUConfig
from fairseq_ext.models.transformer_gated_adapter import GatedAdapterConfig
from fairseq_ext.models.transformer_lm_hier_adapter import HierAdapterConfig
from fairseq_ext.tasks.translation_options import MultiDomainTranslationConfig
from fairseq_ext.text.cleaning.clean import FILTERS, Cleaning
from fairseq_ext.text.downloads import is_opus, is_requirement
from fairseq_ext.text.entries import Form, entry_form
from fairseq_ext.text.normalise import Normalise
from fairseq_ext.text.split import Split
from fairseq_ext.text.subwords import Subwords
from tests.documents.blocks import PAGES, ROOT
from tests.text.test_entries import zipped

DOCS = ROOT / "docs"
RESULTS = sorted((DOCS / "results").glob("*.md"))
# Sections of an experiment file that the training commands read; configs/data.yaml is about data alone.
TRAINING = {"base", "teacher", "train", "translate", "evaluate", "compare"}
# Whose options docs/gated-adapters.md names.
GATED = (GatedAdapterConfig, MultiDomainTranslationConfig)
# Whose options tables of docs/language-models.md name.
LANGUAGE_MODELS = (HierAdapterConfig, CausalLMConfig, DAGRUConfig)


@pytest.fixture(scope="module")
def reference() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")
        return importlib.import_module("write_reference")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def table_of(page: str, first: str) -> list[list[str]]:
    """The rows of the table whose first column is so named."""
    found = re.search(rf"^\| {first} \|.*\n\|[-:| ]+\|\n((?:\|.*\n)+)", text_of(page), re.MULTILINE)
    assert found is not None
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found[1].splitlines()]


def code_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def assert_same(given: Mapping[str, Any], kind: type[Section]) -> None:
    """Keys in order, and values with their types, are the defaults of a section; what has none is left out."""
    fields = kind.model_fields.items()
    wanted = {item.alias or name: item.default for name, item in fields if not item.is_required()}
    assert [*map(repr, given.items())] == [*map(repr, wanted.items())]


def make_files(entry: str, langs: tuple[str, str]) -> None:
    """Put something under every name that an entry gives, below the current directory."""
    for path in {Path(entry.replace("{lang}", lang)) for lang in langs}:
        path.parent.mkdir(parents=True, exist_ok=True)
        if entry.endswith("/"):
            path.mkdir()
        elif path.suffix == ".zip":
            path.write_bytes(zipped({f"a.{lang}": b"a\n" for lang in langs}))
        else:
            path.touch()


def anchors_of(page: Path) -> set[str]:
    """The anchors that a code host and the site make of a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES + RESULTS, ids=lambda path: path.name)
def test_links_point_to_files_and_headings(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s#]+)[^)]*\)", path.read_text(encoding="utf-8")):
        assert link.startswith("https://") or (path.parent / link).exists(), link
    for file, anchor in re.findall(r"\]\(([^)\s#]*\.md)?#([^)\s]+)\)", path.read_text(encoding="utf-8")):
        assert anchor in anchors_of(path.parent / file if file else path), f"{file}#{anchor}"


def test_table_of_filters_has_their_options() -> None:
    rows = table_of("docs/data.md", "filter")
    assert [code_in(row[0]) for row in rows] == [[name] for name in FILTERS]
    for name, kind in FILTERS.items():
        options = next(row[2] for row in rows if row[0] == f"`{name}`")
        assert_same({key: value for text in code_in(options) for key, value in yaml.safe_load(text).items()}, kind)


def test_table_of_forms_has_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    langs = ("en", "pl")
    entries = [entry for row in table_of("docs/data.md", "form") for entry in code_in(row[1])]
    for entry in entries:
        if not (is_opus(entry) or is_requirement(entry)):
            make_files(entry, langs)
    assert {entry_form(entry, langs) for entry in entries} == set(Form)


def test_data_config_has_every_key_at_its_default() -> None:
    raw = yaml.safe_load(text_of("configs/data.yaml"))
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


def test_architecture_has_the_packages_in_their_layers() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))
    layers = next(each["layers"] for each in project["tool"]["importlinter"]["contracts"] if each["type"] == "layers")
    rows = re.findall(r"^\| (`.*?) \|", text_of("docs/architecture.md").partition("## Six ideas")[0], re.MULTILINE)
    named = [sorted(code.strip("/").removesuffix(".py") for code in code_in(row)) for row in rows]
    # Every package is in a layer: that contract is exhaustive.
    assert named == [layer.split(" | ") for layer in layers]


def test_architecture_names_files_that_are_there() -> None:
    named = [name for name in code_in(text_of("docs/architecture.md")) if re.fullmatch(r"[\w/]+/[\w{},]+\.py", name)]
    assert len(named) > 20
    for name in named:
        folder, _, files = name.removesuffix(".py").rpartition("/")
        for file in files.strip("{}").split(","):
            assert any((ROOT / start / folder / f"{file}.py").is_file() for start in ("fairseq_ext", ".")), name


@pytest.mark.slow
def test_the_packages_have_no_cycle() -> None:
    command = [sys.executable, str(ROOT / "tools" / "measure_structure.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "imports, cycles: 0" in printed


def default_of(config: type, option: str) -> Any:
    return next(f.default for f in dataclasses.fields(config) if f.name == option.replace("-", "_"))


def test_the_table_of_the_criterion_has_every_option_and_its_default(reference: Any) -> None:
    rows = table_of("docs/gated-adapters.md", "`--criterion label_smoothed_cross_entropy_with_kd_gate`")
    given = {row[0].strip("`-"): row[1] for row in rows}
    assert sorted(given) == sorted(name for name, _ in reference.options_of(KDGateCriterionConfig))
    for option, default in given.items():
        assert default == str(default_of(KDGateCriterionConfig, option)), option


def test_options_named_for_gated_adapters_exist(reference: Any) -> None:
    page = text_of("docs/gated-adapters.md").partition("## Supported combinations")[0].partition("## The models")[2]
    known = {name for config in GATED for name, _ in reference.options_of(config)}
    named = set(re.findall(r"^\* `--([\w-]+)", page, re.MULTILINE))
    assert len(named) > 8
    assert named <= known


def test_options_in_tables_of_language_models_exist(reference: Any) -> None:
    # The tables of classifiers, behind, name options of fairseq.
    page = text_of("docs/language-models.md").partition("## Re-rank n-best lists")[0]
    known = {name for config in LANGUAGE_MODELS for name, _ in reference.options_of(config)}
    named = {name for row in re.findall(r"^\| `--.*?\|", page, re.MULTILINE) for name in re.findall(r"--([\w-]+)", row)}
    named -= {"arch", "criterion"}
    assert len(named) > 3
    assert named <= known


def test_the_reference_is_that_of_the_code(reference: Any) -> None:
    assert text_of("docs/api.md") == reference.reference(), "run tools/write_reference.py"


def test_the_site_has_every_page() -> None:
    listed = re.findall(r"[\w/-]+\.md$", text_of("mkdocs.yml").partition("\nnav:\n")[2], re.MULTILINE)
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert set(listed) == pages | {"index.md", "CONTRIBUTING.md", "CHANGELOG.md"}

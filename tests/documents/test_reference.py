"""Tables of options, the reference, the picture and the site's list of pages are those of the code and the files."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import re
from types import ModuleType
from typing import Any

import pytest
import yaml

import fairseq_ext.registration  # noqa: F401
from fairseq_ext.criterions.label_smoothed_cross_entropy_with_kd_gate import KDGateCriterionConfig
from fairseq_ext.criterions.topic_language_modeling import TopicLanguageModelingCriterionConfig
from fairseq_ext.models.dagru_lm import DAGRUConfig
from fairseq_ext.models.transformer_gated_adapter import GatedAdapterConfig
from fairseq_ext.models.transformer_lm_topic import TopicConfig
from fairseq_ext.tasks.multi_domain_language_modeling import MultiDomainLanguageModelingConfig
from fairseq_ext.tasks.multi_domain_translation import MultiDomainTranslationConfig
from tests.documents.blocks import ROOT

DOCS = ROOT / "docs"
# Tables that have every option of ours, and their defaults.
COMPLETE = {
    "--arch transformer_gated_adapter": GatedAdapterConfig,
    "--criterion label_smoothed_cross_entropy_with_kd_gate": KDGateCriterionConfig,
    "--task multi_domain_translation": MultiDomainTranslationConfig,
}
# Pages with further tables, and whose options these are.
CHOSEN = {
    "language-models.md": (
        TopicConfig,
        TopicLanguageModelingCriterionConfig,
        MultiDomainLanguageModelingConfig,
        DAGRUConfig,
    ),
}
# Options whose value in a table is no default.
EXAMPLES = ("paths", "choose-paths", "num-paths", "choose-tokens")


@functools.cache
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_reference", ROOT / "scripts" / "write_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def default_of(config: type, option: str) -> Any:
    return next(f.default for f in dataclasses.fields(config) if f.name == option.replace("-", "_"))


def table_of(page: str, first: str) -> list[list[str]]:
    """The rows of the table whose first column is so named."""
    found = re.search(rf"^\| `{first}` \|.*\n\|[-:| ]+\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert found is not None
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found[1].splitlines()]


@pytest.mark.parametrize("first", COMPLETE)
def test_tables_of_gated_adapters_have_every_option_and_its_default(first: str) -> None:
    rows = table_of((DOCS / "gated-adapters.md").read_text(encoding="utf-8"), first)
    told = {row[0].strip("`-|"): row[1] for row in rows}
    config = COMPLETE[first]
    assert sorted(told) == sorted(name for name, _ in script().options_of(config))
    for option, default in told.items():
        assert default in _as_told(default_of(config, option)), option


def _as_told(value: Any) -> tuple[str, ...]:
    """How a table may write a default."""
    if value is False:
        return ("no",)
    return ("none", "all") if value == "" else (str(value),)


@pytest.mark.parametrize("name", CHOSEN)
def test_other_tables_have_options_that_there_are_and_their_defaults(name: str) -> None:
    # The options of re-ranking are a command's own.
    page = (DOCS / name).read_text(encoding="utf-8").partition("## Re-rank n-best lists")[0]
    known = {option: config for config in CHOSEN[name] for option, _ in script().options_of(config)}
    cells = re.findall(r"^\| (`--[^|]*) \|", page, re.MULTILINE)
    options = [text.split() for cell in cells for text in re.findall(r"`--([^`]+)`", cell)]
    options = [words for words in options if not words[0].startswith(("arch", "criterion", "task"))]
    assert len(options) > 4
    for option, *value in options:
        assert option in known, option
        is_default = len(value) == 1 and not value[0].isupper() and option not in EXAMPLES
        assert not is_default or default_of(known[option], option) == yaml.safe_load(value[0]), option


def test_the_reference_is_that_of_the_code() -> None:
    assert (DOCS / "api.md").read_text(encoding="utf-8") == script().reference(), "run scripts/write_reference.py"


def pages_of(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [page for each in (entry.values() if isinstance(entry, dict) else entry) for page in pages_of(each)]


def test_the_site_has_every_page() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert set(pages_of(site["nav"])) == pages | {"index.md", "CONTRIBUTING.md", "CHANGELOG.md"}

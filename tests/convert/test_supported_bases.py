"""The table of docs/import-export.md, every cell of it: what each base can be used for, or one line that refuses it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.marian_models import import_marian_model
from fairseq_ext.convert.translation_models import import_translation_model
from fairseq_ext.serve.graphs.model_graphs import write_graphs
from fairseq_ext.serve.runtime.manifest import FLOAT32, INT8, graph_files
from tests import toy
from tests.convert import tiny_translation as tiny
from tests.convert.tiny_marian import make_marian_folder
from tests.verbs import verb

PAGE = Path(__file__).resolve().parents[2] / "docs" / "import-export.md"
AD, GAD = "transformer_domain_adapter", "transformer_gated_adapter"
LORA = ("--adapter-form", "lora")
NORM_FIRST = ("--encoder-normalize-before", "--decoder-normalize-before")
FAMILIES = {"Marian": "marian", "M2M-100": "m2m", "NLLB-200": "nllb", "mBART": "mbart", "mBART-50": "mbart50"}


class Base:
    """Data and options of a base, of which models are made."""

    def __init__(self, name: str, data: Path, folder: Path) -> None:
        self.data, self.folder = data, folder
        self.suffix, self.options = "_tiny", list(NORM_FIRST) if "pre-norm" in name else []
        if name in FAMILIES or "SSRU" in name:
            self.data, self.suffix = folder / "imported", ""
            self.data.mkdir()
            if "SSRU" in name:
                import_marian_model(make_marian_folder(folder), self.data)
            else:
                tiny.make(folder / "theirs", FAMILIES[name], steps=0)
                import_translation_model(folder / "theirs", self.data, tiny.LANGUAGES.get(FAMILIES[name], (None, None)))
            self.options = [*tiny.adapter_options(self.data), "--bottleneck-dim", "8"]

    def model(self, arch: str, *options: str) -> tuple[Any, Any]:
        """A model with adapters, and its options."""
        task, args = toy.make_task(self.data, *self.options, *options, arch=arch + self.suffix)
        return toy.make_model(task, args), args


def train(base: Base, arch: str, *options: str) -> None:
    """One update moves adapters, and gates where there are some, alone."""
    model, _ = base.model(arch, *options)
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    tokens = torch.tensor([[5, 6, 7, 2]])
    inputs = {"src_tokens": tokens, "src_lengths": torch.tensor([4]), "prev_output_tokens": tokens}
    model(**inputs, domain_ids=torch.tensor([1]))[0].log_softmax(-1)[..., 5].sum().backward()
    assert any(weight.grad is not None for weight in trained.values())
    assert all("adapter" in name or "gate" in name for name in trained)


def export(base: Base, precision: str) -> None:
    write_graphs(base.model(GAD)[0].eval(), base.folder, precision)
    encoder, decoder, *_ = graph_files(precision)
    assert all((base.folder / name).stat().st_size > 10_000 for name in (encoder, decoder))


def export_domain(base: Base, *options: str) -> None:
    model, args = base.model(AD, *options)
    checkpoint = toy.write_checkpoint(base.folder / "ad.pt", args, model)
    verb("export-domain")([str(checkpoint), "med", str(base.folder / "med")])


COLUMNS: dict[str, Callable[[Base], Any]] = {
    "AD": lambda base: train(base, AD),
    "GAD": lambda base: train(base, GAD),
    "LoRA": lambda base: train(base, GAD, *LORA),
    "TAG": lambda base: toy.make_task(base.data, *base.options, "--domain-tags", arch=AD + base.suffix),
    "`export`": lambda base: export(base, FLOAT32),
    "int8": lambda base: export(base, INT8),
    "`export-domain`, AD": export_domain,
    "`export-domain`, LoRA": lambda base: export_domain(base, *LORA),
}
EVERYWHERE = ("AD", "GAD", "LoRA", "`export`", "int8")  # what the page says of every base


def table() -> tuple[list[str], dict[str, list[str]]]:
    """The columns and, by base, the cells."""
    section = PAGE.read_text(encoding="utf-8").partition("## Supported bases")[2]
    lines = re.findall(r"^\|(.*)\|$", section.partition("\n## ")[0], re.MULTILINE)
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    return rows[0][1:], {name: cells for name, *cells in rows[2:]}


@pytest.mark.slow
@pytest.mark.parametrize("name", table()[1])
def test_supported_bases_are_those_of_the_page(
    name: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns, rows = table()
    base, found = Base(name, data, tmp_path), {}
    for column, use in COLUMNS.items():
        try:
            use(base)
            found[column] = "yes"
        except (InputError, SystemExit):
            found[column] = "no"
    assert found == dict.fromkeys(EVERYWHERE, "yes") | dict(zip(columns, rows[name], strict=True))

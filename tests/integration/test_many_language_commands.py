"""Adapters on tiny models in the layouts of mBART and M2M, from the import to translations, by command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import toy
from tests.convert import others
from tests.integration.test_command_lines import run_well
from tests.verbs import verb

pytestmark = pytest.mark.slow
FAMILIES = {"mbart": (others.MBART, "transformer_gated_adapter"), "m2m": (others.M2M, "transformer_domain_adapter")}


@pytest.mark.parametrize("family", FAMILIES)
def test_import_train_generate_and_type(data: Path, tmp_path: Path, family: str) -> None:
    pretrained = others.pretrained_data(data, tmp_path / "data-bin")
    arguments, arch = FAMILIES[family]
    _, args, model = others.make(pretrained, arguments)
    verb("import", "checkpoint")([str(others.write_old(tmp_path / "old.pt", args, model)), str(tmp_path / "base")])
    told = (tmp_path / "base/options.txt").read_text().split()
    task = [str(pretrained), "--task", "multi_domain_translation", "--cpu", *told]
    # No size is typed.
    # fmt: off
    run_well("train", *task, "--arch", arch, "--finetune-from-model", str(tmp_path / "base/model.pt"),
             "--optimizer", "adam", "--lr", "0.01", "--max-tokens", "200", "--max-epoch", "1", "--save-dir", "adapted",
             cwd=tmp_path)
    # fmt: on
    path = ["--path", "adapted/checkpoint_best.pt", "--beam", "2", "--max-len-b", "10"]
    generated = run_well("generate", *task, *path, "--gen-subset", "test", cwd=tmp_path)
    lines = [line.split("\t") for line in generated.splitlines() if line[:2] in ("T-", "H-", "D-")]
    assert len(lines) == 3 * 4 * len(toy.DOMAINS)
    assert not any("[" in text or "_" in text for _, *_, text in lines)
    typed = run_well("interactive", *task, *path, "--buffer-size", "2", cwd=tmp_path, stdin="<domain:med> w1 w2\n")
    assert [line for line in typed.splitlines() if line.startswith("S-0")] == ["S-0\tw1 w2"]
    assert any(line.startswith("H-0") for line in typed.splitlines())

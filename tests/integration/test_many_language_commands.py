"""Adapters on a tiny model in the layout of mBART, from the import to translations, by command."""

from pathlib import Path

import pytest

from tests import toy
from tests.convert import others
from tests.integration.test_command_lines import run_well
from tests.verbs import verb

pytestmark = pytest.mark.slow


def test_import_train_generate_and_type(data: Path, tmp_path: Path) -> None:
    pretrained = others.pretrained_data(data, tmp_path / "data-bin")
    _, args, model = others.make(pretrained, others.MBART)
    verb("import", "checkpoint")([str(others.write_old(tmp_path / "old.pt", args, model)), str(tmp_path / "base")])
    told = (tmp_path / "base/options.txt").read_text().split()
    task = [str(pretrained), "--task", "multi_domain_translation", "--cpu", *told]
    # No size is typed.
    base = ["--arch", "transformer_gated_adapter", "--finetune-from-model", "base/model.pt"]
    short = ["--optimizer", "adam", "--lr", "0.01", "--max-tokens", "200", "--max-epoch", "1"]
    run_well("train", *task, *base, *short, "--save-dir", "adapted", cwd=tmp_path)
    path = ["--path", "adapted/checkpoint_best.pt", "--beam", "2", "--max-len-b", "10"]
    generated = run_well("generate", *task, *path, "--gen-subset", "test", cwd=tmp_path)
    lines = [line.split("\t") for line in generated.splitlines() if line[:2] in ("T-", "H-", "D-")]
    assert len(lines) == 3 * 4 * len(toy.DOMAINS)
    assert not any("[" in text or "_" in text for _, *_, text in lines)
    typed = run_well("interactive", *task, *path, "--buffer-size", "2", cwd=tmp_path, stdin="<domain:med> w1 w2\n")
    assert [line for line in typed.splitlines() if line.startswith("S-0")] == ["S-0\tw1 w2"]
    assert any(line.startswith("H-0") for line in typed.splitlines())

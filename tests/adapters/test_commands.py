"""``fairseq-ext adapters`` as it is typed."""

import json
from pathlib import Path

import pytest

from tests.verbs import verb


def run(*words: object) -> None:
    verb("adapters")([str(word) for word in words])


@pytest.mark.slow
def test_domains_are_moved_and_renamed_by_commands(
    systems: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    run("export", systems / "gad/model.pt", "law", tmp_path / "law.safetensors", "--licence", "CC0-1.0")
    capsys.readouterr()
    run("inspect", tmp_path / "law.safetensors")
    shown = json.loads(capsys.readouterr().out)
    assert (shown["domains"], shown["licence"], shown["tensors"]) == (["law"], "CC0-1.0", "29 tensors")
    assert (shown["kind"], shown["options"]["gate_temperature"]) == ("transformer_gated_adapter", 2)
    assert shown["sizes"]["encoder_embed_dim"] == 64
    run("attach", systems / "mix/model.pt", tmp_path / "law.safetensors", tmp_path / "one.pt")
    run("rename-domain", tmp_path / "one.pt", "law", "court", tmp_path / "two.pt")
    run("add-domain", tmp_path / "two.pt", "news", tmp_path / "three.pt", "--from", "mean")
    run("remove-domain", tmp_path / "three.pt", "court", tmp_path / "four.pt")
    capsys.readouterr()
    run("list", tmp_path / "three.pt")
    assert capsys.readouterr().out.splitlines()[1:] == ["court: 17,627 parameters", "news: 17,627 parameters, guarded"]

"""Corrections are learned by one adapter, and scored where they are held out."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.adapters import corrections
from fairseq_ext.adapters.corrections import read_corrections
from fairseq_ext.adapters.system import System
from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.runtime.manifest import verify
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.translator import SystemTranslator
from tests import toy
from tests.verbs import verb


def write(path: Path, *pairs: tuple[Any, Any]) -> Path:
    lines = [json.dumps({"source": source, "target": target}) for source, target in pairs]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_the_last_correction_of_a_text_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "law.jsonl", ("a\nb", "c"), ("d", "e"), ("a  b", "f"))
    assert read_corrections(path) == [("a b", "f"), ("d", "e")]
    (tmp_path / "law.tsv").write_text("a\tb\n")
    assert read_corrections(tmp_path / "law.tsv") == [("a", "b")]


@pytest.mark.parametrize(
    ("name", "content"), [("a.jsonl", '{"source": "a"}'), ("a.jsonl", "a"), ("a.tsv", "a\tb\tc"), ("a.tsv", "a\t")]
)
def test_a_line_that_is_no_correction_is_named(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(f"{content}\n")
    with pytest.raises(InputError, match=f"{name}, line 1"):
        read_corrections(tmp_path / name)


@pytest.mark.slow
def test_one_adapter_learns_and_the_others_stay(
    exports: Path, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, folder = tmp_path / "ad", tmp_path / "corrections"
    folder.mkdir()
    write(folder / "law.jsonl", *((f"w{number} w5", "w7 w7 w7") for number in range(4)))
    command = [str(exports / "ad"), "law", str(folder), "--output", str(system), "--max-update", "40", "--lr", "0.05"]
    verb("adapters", "update")([*command, "--cpu"])
    before, after = System.read(exports / "ad"), System.read(system)
    for name in toy.DOMAINS:
        old, new = before.rows(name), after.rows(name)
        assert {key for key in old if not torch.equal(old[key], new[key])} == (old.keys() if name == "law" else set())
    requests = [Request("w2 w5", name) for name in (*toy.DOMAINS, "base")]
    one, other = (SystemTranslator.load(each).translate(requests) for each in (exports / "ad", system))
    assert other[0].candidates[0].text == "w7 w7 w7"
    assert [answer.candidates for answer in one[1:]] == [answer.candidates for answer in other[1:]]
    verify(system)
    assert "law: chrF " in capfd.readouterr().out

    write(tmp_path / "bad.jsonl", *((f"w{number} w5", f"w{number % 7} w9") for number in range(12)))
    worse = [str(system), "law", str(tmp_path / "bad.jsonl"), "--max-update", "3", "--lr", "0.002", "--cpu"]
    digest = (system / "system.json").read_bytes()
    scored: list[tuple[Path, str]] = []

    def score(path: Path, name: str, _: Any) -> float:
        scored.append((path, name))
        return 40.0 if path == system else 30.0

    monkeypatch.setattr(corrections, "score", score)
    with pytest.raises(InputError, match="chrF would fall from 40.0 to 30.0 on 1 held-out corrections, so .* stays"):
        verb("adapters", "update")(worse)
    assert (system / "system.json").read_bytes() == digest
    verb("adapters", "update")([*worse, "--even-if-worse"])
    assert (system / "system.json").read_bytes() != digest
    left = {path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")}
    assert left == {"ad", "bad.jsonl", "corrections"}

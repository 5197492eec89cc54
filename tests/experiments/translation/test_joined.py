"""Sentences of two domains in a row, and what is made of gates over them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fairseq_ext.experiments.translation.gate_pictures import draw_change, draw_sentences
from fairseq_ext.experiments.translation.joined import draw_pairs, write_joined, write_pairs

from fairseq_ext.inputs.errors import InputError

DOMAINS = ["law", "med"]


@pytest.fixture
def splits(tmp_path: Path) -> Path:
    folder = tmp_path / "splits"
    for name in DOMAINS:
        (folder / name).mkdir(parents=True)
        for lang in ("en", "de"):
            lines = [" ".join([f"{name}{lang}{number}"] * (number + 1)) for number in range(10)]
            (folder / name / f"test.{lang}").write_text("\n".join(lines) + "\n")
    (folder / "domains.txt").write_text("law\nmed\n")
    return folder


def test_two_domains_both_sides_and_short_enough(splits: Path) -> None:
    pairs = draw_pairs(splits, ("en", "de"), 20, 12, seed=1)
    assert len({pair.texts for pair in pairs}) == 20
    assert {pair.domains for pair in pairs} == {("law", "med"), ("med", "law")}
    for pair in pairs:
        source, target = (text.split() for text in pair.texts)
        assert len(source) <= 12
        assert source[0].startswith(f"{pair.domains[0]}en")
        assert source[-1].startswith(f"{pair.domains[1]}en")
        assert [word.replace("en", "de") for word in source] == target
    assert draw_pairs(splits, ("en", "de"), 20, 12, seed=1) == pairs != draw_pairs(splits, ("en", "de"), 20, 12, seed=2)


def test_more_than_there_are_is_refused(splits: Path) -> None:
    with pytest.raises(InputError, match="joined: 5 are more than the test sets give, which have 2 of 4 words"):
        draw_pairs(splits, ("en", "de"), 5, 8, seed=1)


def test_weights_move_from_the_first_domain_to_the_second(tmp_path: Path, splits: Path) -> None:
    sets, run = tmp_path / "sets", tmp_path / "gad"
    sets.mkdir()
    run.mkdir()
    pairs = draw_pairs(splits, ("en", "de"), 2, 80, seed=1)
    write_pairs(sets, ("en", "de"), pairs)
    (sets / "EARLIER.en").write_text("one\n")
    entries, printed = [], []
    for number, pair in enumerate(pairs, start=1):
        first = [0.9, 0.1] if pair.domains[0] == "law" else [0.1, 0.9]
        tokens = [first] * 10 + [first[::-1]] * 10
        entries.append({"id": number, "encoder": [[0.5, 0.5], [0.5, 0.5]], "decoder": [[0.5, 0.5]], "tokens": tokens})
        printed.append(f"H-{number}\t-0.5\t" + " ".join(["▁Wort"] * 19) + "\n")
    (run / "gates.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    (run / "interactive.txt").write_text("".join(printed))
    write_joined(tmp_path, {"gad": run}, DOMAINS, sets, "en")
    joined = json.loads((tmp_path / "joined.json").read_text())
    found = joined["gad"]
    assert found["by_part"][0] == [0.9, 0.1, 0.0]
    assert found["by_part"][-1] == [0.1, 0.9, 0.0]
    assert (found["encoder"], found["sentences"]) == ([0.5, 0.5, 0.0], 2)
    assert len(found["shown"]) == 1  # of a pair of domains, the first
    assert draw_change(joined).shapes
    text, picture = draw_sentences(joined, 3)
    marked = {shape.text for shape in picture.shapes if shape.style == "strong small"}
    assert marked == {"law", "med"}


def test_a_sentence_without_gates_is_named(tmp_path: Path, splits: Path) -> None:
    write_pairs(tmp_path, ("en", "de"), draw_pairs(splits, ("en", "de"), 1, 80, seed=1))
    (tmp_path / "gates.jsonl").write_text('{"id": 0, "encoder": [[1, 0]], "decoder": [[1, 0]]}\n')
    (tmp_path / "interactive.txt").write_text("")
    with pytest.raises(InputError, match="gates.jsonl, line 1: holds no gates by token"):
        write_joined(tmp_path, {"gad": tmp_path}, DOMAINS, tmp_path, "en")

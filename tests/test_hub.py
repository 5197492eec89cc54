"""Translating from Python, compared with searching by hand and with what was typed at the command line."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from fairseq.models.transformer import TransformerModel

from fairseq_ext.hub import DomainTranslator
from fairseq_ext.inputs.errors import InputError
from tests import toy, toy_systems
from tests.toy_systems import by_hand

LINES = ["w1 w2 w3", "w4 w5", "w6", "w7 w8 w9 w10"]
EACH = ["law", "sub", "med", "law"]


def load(systems: Path, name: str, data: Path, **options: Any) -> DomainTranslator:
    return DomainTranslator.from_pretrained(systems / name, data_name_or_path=data, **options)


@functools.cache
def loaded(systems: Path, name: str, data: Path) -> DomainTranslator:
    """One for all tests: translating changes nothing in it."""
    return load(systems, name, data)


@pytest.mark.parametrize("name", toy_systems.ARCHITECTURES)
def test_translates_as_the_model_by_hand(systems: Path, data: Path, name: str) -> None:
    hub = loaded(systems, name, data)
    expected = [
        hub.decode(torch.tensor(by_hand(data, name, *pair, max_len_b=5))) for pair in zip(LINES, EACH, strict=True)
    ]
    assert hub.translate(LINES, beam=1, domain=EACH, max_len_b=5) == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize("name", ["tag", "gad"])
def test_a_domain_may_be_given_in_four_places(systems: Path, data: Path, name: str) -> None:
    hub = loaded(systems, name, data)
    pairs = list(zip(LINES, EACH, strict=True))
    expected = [hub.translate(line, beam=2, domain=domain, max_len_b=5) for line, domain in pairs]
    typed = [f"<domain:{domain}> {line}" for line, domain in pairs]
    assert hub.translate(typed, beam=2, max_len_b=5) == expected
    assert hub.translate(typed, beam=2, domain="med", max_len_b=5) == expected  # what is typed comes first
    law = load(systems, name, data, domain="law")
    assert law.translate(LINES, beam=2, domain=[None, "sub", "med", None], max_len_b=5) == expected
    assert law.translate(LINES, beam=2, max_len_b=5) == hub.translate(LINES, beam=2, domain="law", max_len_b=5)
    assert hub.translate(LINES, beam=2, domain="law", max_len_b=5) != hub.translate(
        LINES, beam=2, domain="sub", max_len_b=5
    )


def test_a_domain_changes_nothing_where_there_are_no_adapters(systems: Path, data: Path) -> None:
    hub = loaded(systems, "mix", data)
    assert hub.translate(LINES, max_len_b=5) == hub.translate(LINES, domain=EACH, max_len_b=5)


def test_gates_decide_where_no_domain_is_given(systems: Path, data: Path) -> None:
    hub = loaded(systems, "gad", data)
    forced, mixed = hub.translate_with_gates(LINES[:2], domain=["law", None], max_len_b=5)
    [own] = hub.translate_with_gates(LINES[1:2], max_len_b=5)
    assert forced[0] == hub.translate(LINES[0], domain="law", max_len_b=5)
    assert all(each == [1.0, 0.0, 0.0] for side in ("encoder", "decoder") for each in forced[1][side].tolist())
    assert mixed[0] == own[0]
    torch.testing.assert_close(mixed[1], own[1])


@pytest.mark.parametrize("name", ["mix", "ad"])
def test_a_domain_that_is_unknown_or_missing(systems: Path, data: Path, name: str) -> None:
    hub = loaded(systems, name, data)
    for call in (
        lambda: hub.translate(LINES, domain="news"),
        lambda: hub.translate(["<domain:news> w1"]),
        lambda: load(systems, name, data, domain="news"),
    ):
        with pytest.raises(InputError, match="law, med, sub"):
            call()
    with pytest.raises(InputError, match="3 domains for 4 sentences"):
        hub.translate(LINES, domain=EACH[:3])
    if name == "ad":
        with pytest.raises(InputError, match="domain"):
            hub.generate([hub.src_dict.encode_line("w1", add_if_not_exist=False).long()])
    assert hub.translate(["w1"], domain="law", max_len_b=5)


def test_fairseqs_own_hub_never_leaves_the_tag_out(systems: Path, data: Path) -> None:
    told = TransformerModel.from_pretrained(str(systems / "tag"), "model.pt", str(data), domain="med")
    own = loaded(systems, "tag", data)
    assert told.translate(LINES, max_len_b=5) == own.translate(LINES, domain="med", max_len_b=5)
    with pytest.raises(InputError, match="reads a domain's tag"):
        TransformerModel.from_pretrained(str(systems / "tag"), "model.pt", str(data)).translate("w1")


def test_gates_of_a_translation(systems: Path, data: Path) -> None:
    hub = loaded(systems, "gad", data)
    assert hub.domains == toy.DOMAINS
    found = hub.translate_with_gates(LINES, beam=2, max_len_b=5)
    assert [text for text, _ in found] == hub.translate(LINES, beam=2, max_len_b=5)
    _, _, model = toy_systems.make_system(data, "gad")
    for line, (text, gates) in zip(LINES, found, strict=True):
        source = hub.encode(line).unsqueeze(0)
        target = torch.cat([torch.tensor([2]), hub.tgt_dict.encode_line(text, append_eos=False).long()]).unsqueeze(0)
        alone = model.gate_weights({"src_tokens": source, "src_lengths": torch.tensor([source.size(1)])}, target)
        for side in ("encoder", "decoder"):
            torch.testing.assert_close(gates[side], alone[side][0])
            torch.testing.assert_close(gates[side].sum(1), torch.ones(2))
    with pytest.raises(InputError, match="no gates"):
        loaded(systems, "mix", data).translate_with_gates(LINES)


@pytest.mark.parametrize("name", ["tag", "gad"])
def test_scores_are_those_of_the_search_that_found_the_text(systems: Path, data: Path, name: str) -> None:
    hub = loaded(systems, name, data)
    tokens = [hub.encode(line, domain) for line, domain in zip(LINES, EACH, strict=True)]
    best = [found[0] for found in hub.generate(tokens, beam=3, max_len_b=5)]
    texts = [hub.decode(hypothesis["tokens"]) for hypothesis in best]
    scored = hub.score(LINES, texts, domain=EACH)
    for one, other in zip(scored, best, strict=True):
        assert one["tokens"].tolist() == other["tokens"].tolist()
        torch.testing.assert_close(one["positional_scores"], other["positional_scores"], atol=1e-5, rtol=1e-4)
    with pytest.raises(InputError, match="1 translations for 4 sentences"):
        hub.score(LINES, texts[:1], domain=EACH)


# A directory of dictionaries, domains and pieces is enough


def pieces(root: Path) -> Path:
    """A SentencePiece model whose pieces are the toy's words and letters."""
    text = root / "text"
    text.write_text("".join(f"{' '.join(toy.WORDS[i:] + toy.WORDS[:i])}\n" for i in range(20)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(root / "sentencepiece"), vocab_size=40, hard_vocab_limit=False,
        minloglevel=2,
    )  # fmt: skip
    return root / "sentencepiece.model"


def test_no_binarised_data_are_needed_and_pieces_are_found(systems: Path, data: Path, tmp_path: Path) -> None:
    for name in ("dict.en.txt", "dict.pl.txt", "domains.txt"):
        shutil.copy(data / name, tmp_path / name)
    bare = load(systems, "ad", tmp_path)  # languages are in the checkpoint
    assert bare.translate(LINES, domain=EACH, max_len_b=5) == loaded(systems, "ad", data).translate(
        LINES, domain=EACH, max_len_b=5
    )
    model = pieces(tmp_path)
    cut = " ".join(sentencepiece.SentencePieceProcessor(model_file=str(model)).encode("w1 w2", out_type=str))
    assert "▁" in cut
    for hub in (
        load(systems, "ad", tmp_path),
        load(systems, "ad", data, bpe="sentencepiece", sentencepiece_model=str(model)),
    ):
        expected = hub.src_dict.encode_line(cut, add_if_not_exist=False).tolist()
        tag = hub.src_dict.index("<domain:med>")
        assert hub.encode("<domain:med> w1 w2").tolist() == [tag, *expected]
        assert hub.decode(torch.tensor([4, 5, 2])) == "w0w1"

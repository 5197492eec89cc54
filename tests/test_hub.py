"""Translating from Python, compared with searching by hand and with what was typed at the command line."""

import functools
import shutil
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from fairseq.models.transformer import TransformerModel

from fairseq_ext.base.errors import InputError
from fairseq_ext.hub import DomainTranslator
from tests import toy, toy_systems
from tests.text.tiny_pieces import write_pieces
from tests.toy_systems import by_hand

LINES = ["w1 w2 w3", "w4 w5", "w6", "w7 w8 w9 w10"]
EACH = ["law", "sub", "med", "law"]


LENGTH = {"max_len_b": 5}


def load(systems: Path, name: str, data: Path, **options: Any) -> DomainTranslator:
    return DomainTranslator.from_pretrained(systems / name, data_name_or_path=data, **options)


@functools.cache
def loaded(systems: Path, name: str, data: Path) -> DomainTranslator:
    """One for all tests: translating changes nothing in it."""
    return load(systems, name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", toy_systems.ARCHITECTURES)
def test_translates_as_the_model_by_hand(systems: Path, data: Path, name: str) -> None:
    hub = loaded(systems, name, data)
    found = [by_hand(data, name, line, domain, **LENGTH) for line, domain in zip(LINES, EACH, strict=True)]
    expected = [hub.decode(torch.tensor(tokens)) for tokens in found]
    assert hub.translate(LINES, beam=1, domain=EACH, **LENGTH) == expected
    assert len(set(expected)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tag", "gad"])
def test_a_domain_may_be_given_in_four_places(systems: Path, data: Path, name: str) -> None:
    hub, law = loaded(systems, name, data), load(systems, name, data, domain="law")
    pairs = list(zip(LINES, EACH, strict=True))
    expected = [hub.translate(line, domain=domain, **LENGTH) for line, domain in pairs]
    typed = [f"<domain:{domain}> {line}" for line, domain in pairs]
    assert hub.translate(typed, **LENGTH) == expected
    assert hub.translate(typed, domain="med", **LENGTH) == expected  # what is typed comes first
    assert law.translate(LINES, domain=[None, "sub", "med", None], **LENGTH) == expected
    assert law.translate(LINES, **LENGTH) == hub.translate(LINES, domain="law", **LENGTH)
    assert law.translate(LINES, **LENGTH) != hub.translate(LINES, domain="sub", **LENGTH)


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
    else:  # a domain changes nothing without adapters
        assert hub.translate(LINES, **LENGTH) == hub.translate(LINES, domain=EACH, **LENGTH)


def test_fairseqs_own_hub_never_leaves_the_tag_out(systems: Path, data: Path) -> None:
    told = TransformerModel.from_pretrained(str(systems / "tag"), "model.pt", str(data), domain="med")
    own = loaded(systems, "tag", data)
    assert told.translate(LINES, **LENGTH) == own.translate(LINES, domain="med", **LENGTH)
    with pytest.raises(InputError, match="domain"):
        TransformerModel.from_pretrained(str(systems / "tag"), "model.pt", str(data)).translate("w1")


def test_gates_of_a_translation(systems: Path, data: Path) -> None:
    hub = loaded(systems, "gad", data)
    assert hub.domains == toy.DOMAINS
    found = hub.translate_with_gates(LINES, **LENGTH)
    assert [text for text, _ in found] == hub.translate(LINES, **LENGTH)
    _, _, model = toy_systems.make_system(data, "gad")
    for line, (text, gates) in zip(LINES, found, strict=True):
        source = hub.encode(line).unsqueeze(0)
        target = torch.cat([torch.tensor([2]), hub.tgt_dict.encode_line(text, append_eos=False).long()]).unsqueeze(0)
        alone = model.gate_weights({"src_tokens": source, "src_lengths": torch.tensor([source.size(1)])}, target)
        for side in ("encoder", "decoder"):
            torch.testing.assert_close(gates[side], alone[side][0])
            torch.testing.assert_close(gates[side].sum(1), torch.ones(2))
    forced, mixed = hub.translate_with_gates(LINES[:2], domain=["law", None], **LENGTH)
    assert forced[0] == hub.translate(LINES[0], domain="law", **LENGTH)
    assert all(each == [1.0, 0.0, 0.0] for side in ("encoder", "decoder") for each in forced[1][side].tolist())
    assert mixed[0] == found[1][0]
    torch.testing.assert_close(mixed[1], found[1][1])
    with pytest.raises(InputError, match="no gates"):
        loaded(systems, "mix", data).translate_with_gates(LINES)


@pytest.mark.parametrize("name", ["tag", "gad"])
def test_scores_are_those_of_the_search_that_found_the_text(systems: Path, data: Path, name: str) -> None:
    hub = loaded(systems, name, data)
    tokens = [hub.encode(line, domain) for line, domain in zip(LINES, EACH, strict=True)]
    best = [found[0] for found in hub.generate(tokens, beam=3, **LENGTH)]
    texts = [hub.decode(hypothesis["tokens"]) for hypothesis in best]
    scored = hub.score(LINES, texts, domain=EACH)
    for one, other in zip(scored, best, strict=True):
        assert one["tokens"].tolist() == other["tokens"].tolist()
        torch.testing.assert_close(one["positional_scores"], other["positional_scores"], atol=1e-5, rtol=1e-4)
    with pytest.raises(InputError, match="1 translations for 4 sentences"):
        hub.score(LINES, texts[:1], domain=EACH)


@pytest.mark.slow
def test_no_binarised_data_are_needed_and_pieces_are_found(systems: Path, data: Path, tmp_path: Path) -> None:
    for name in ("dict.en.txt", "dict.pl.txt", "domains.txt"):
        shutil.copy(data / name, tmp_path / name)
    bare = load(systems, "ad", tmp_path)  # languages are in the checkpoint
    of_data = loaded(systems, "ad", data)
    assert bare.translate(LINES, domain=EACH, **LENGTH) == of_data.translate(LINES, domain=EACH, **LENGTH)
    model = tmp_path / "sentencepiece.model"
    text = [" ".join(toy.WORDS[first:] + toy.WORDS[:first]) for first in range(20)]
    write_pieces(model, 40, lines=text, hard_vocab_limit=False)
    cut = " ".join(sentencepiece.SentencePieceProcessor(model_file=str(model)).encode("w1 w2", out_type=str))
    assert "▁" in cut
    given = load(systems, "ad", data, bpe="sentencepiece", sentencepiece_model=str(model))
    for hub in (load(systems, "ad", tmp_path), given):
        expected = hub.src_dict.encode_line(cut, add_if_not_exist=False).tolist()
        tag = hub.src_dict.index("<domain:med>")
        assert hub.encode("<domain:med> w1 w2").tolist() == [tag, *expected]
        assert hub.decode(torch.tensor([4, 5, 2])) == "w0w1"

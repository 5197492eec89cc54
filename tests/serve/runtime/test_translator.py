"""Routes beside each other in one call, against the hub and against each row alone."""

import dataclasses
import functools
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fairseq_ext.base.errors import InputError
from fairseq_ext.hub import DomainTranslator
from fairseq_ext.serve.runtime.requests import Answer, Request
from fairseq_ext.serve.runtime.translator import SystemTranslator
from tests import toy, toy_systems
from tests.serve.graphs.small_systems import KNOWN_BY

LINES = ["w4 w5 w6", "w7 w8", "w9", "w10 w11 w12 w13"]
ROUTES = {
    "mix": ["base"],
    "tag": ["classifier", *toy.DOMAINS],
    "ad": ["classifier", "base", *toy.DOMAINS],
    "gad": ["gates", "classifier", "base", *toy.DOMAINS],
}
SEARCH = {"beam": 3, "max_len_a": 0.0, "max_len_b": 6}  # of the exported systems
Load = Callable[[str], SystemTranslator]
ON_A_SERVER = """
import json, sys
sys.modules["torch"] = None  # so that importing it fails
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.translator import SystemTranslator
answers = SystemTranslator.load(sys.argv[1]).translate([Request("w1 w4"), Request("w2 w5", "classifier")])
print(json.dumps([[each.candidates[0].text, each.domain, each.weights] for each in answers]))
assert not {"fairseq", "sklearn", "scipy"} & sys.modules.keys(), "a library of training is loaded"
"""


@pytest.fixture(scope="module")
def load(exported: Path) -> Load:
    return functools.cache(lambda name: SystemTranslator.load(exported / name))


def test_translates_as_precisely_as_asked(load: Load, exported: Path) -> None:
    lowered = SystemTranslator.load(exported / "gad", decoding_precision="int8")
    scores = [[a.candidates[0].score for a in t.translate([Request("w1 w4 w7")])] for t in (lowered, load("gad"))]
    assert scores[0] != scores[1]
    assert scores[0] == pytest.approx(scores[1], abs=0.1)
    with pytest.raises(InputError, match="device tpu"):
        SystemTranslator.load(exported / "gad", device="tpu")
    with pytest.raises(InputError, match="decoding_precision"):
        SystemTranslator.load(exported / "gad", decoding_precision="int4")


def texts(answers: list[Answer]) -> list[str]:
    return [answer.candidates[0].text for answer in answers]


@pytest.mark.parametrize("name", toy_systems.ARCHITECTURES)
def test_a_systems_routes_and_its_own(load: Load, name: str) -> None:
    translator = load(name)
    assert translator.routes == ROUTES[name]
    assert translator.default_route == ROUTES[name][0]
    assert (translator.name, translator.languages, translator.domains) == (name, ("en", "pl"), toy.DOMAINS)
    with pytest.raises(InputError, match=f"request 2: {name} has no route 'news'; .* {ROUTES[name][-1]}"):
        translator.translate([Request("w1"), Request("w1", "news")])


def test_tags_are_the_hubs(load: Load, exported: Path) -> None:
    hub = DomainTranslator.from_pretrained(exported / "tag")
    for domain in toy.DOMAINS:
        found = texts(load("tag").translate([Request(line, domain) for line in LINES]))
        assert found == hub.translate(LINES, domain=domain, **SEARCH)


@pytest.mark.parametrize("name", ["ad", pytest.param("gad", marks=pytest.mark.slow)])
def test_routes_beside_each_other_are_as_alone(load: Load, name: str) -> None:
    requests = [Request(line, route) for line in LINES for route in ROUTES[name]]
    together = load(name).translate(requests, candidates=2)
    assert len({answer.candidates[0].text for answer in together[: len(ROUTES[name])]}) > 1  # routes matter
    for request, answer in zip(requests, together, strict=True):
        [alone] = load(name).translate([request], candidates=2)
        assert [one.text for one in answer.candidates] == [one.text for one in alone.candidates]
        assert [one.score for one in answer.candidates] == pytest.approx([one.score for one in alone.candidates])
        assert (answer.route, answer.domain) == (alone.route, alone.domain) == (request.route, answer.domain)


@pytest.mark.parametrize("name", ["tag", "gad"])
def test_the_classifier_chooses_by_the_text(load: Load, name: str) -> None:
    lines = [f"{word} w15" for word in KNOWN_BY.values()]
    chosen = load(name).translate([Request(line, "classifier") for line in ["", *lines]])
    assert [answer.domain for answer in chosen] == [None, *toy.DOMAINS]
    told = [Request(line, domain) for line, domain in zip(lines, toy.DOMAINS, strict=True)]
    assert texts(chosen[1:]) == texts(load(name).translate(told))


def test_text_of_no_domain_takes_the_base(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a classifier that has one class more than domains; a system with tags has no base."""
    shares = [[0.1, 0.2, 0.0, 0.7], [0.6, 0.1, 0.1, 0.2]]
    classifier = SimpleNamespace(predict=lambda texts: np.array(shares, dtype=np.float32)[: len(texts)])
    for name, domains in (("ad", [None, "law"]), ("tag", ["med", "law"])):
        monkeypatch.setattr(load(name).routing, "classifier", classifier)
        chosen = load(name).translate([Request(line, "classifier") for line in ("w1 w4", "w2 w5")])
        assert [answer.domain for answer in chosen] == domains
    [base] = load("ad").translate([Request("w1 w4", "base")])
    monkeypatch.setattr(load("ad").routing, "classifier", classifier)
    assert texts(load("ad").translate([Request("w1 w4", "classifier")])) == texts([base])


def test_weights_are_those_that_were_used(load: Load) -> None:
    gated, forced, base = load("gad").translate([Request("w4", route) for route in ("gates", "med", "base")])
    layers = [layer for side in ("encoder", "decoder") for layer in gated.gates[side]]
    assert [sum(layer) for layer in layers] == pytest.approx([1.0] * 4)
    assert gated.weights == pytest.approx([sum(column) / 4 for column in zip(*layers, strict=True)])
    assert (forced.weights, forced.gates) == ([0.0, 1.0, 0.0], None)
    assert (base.weights, base.gates) == ([0.0, 0.0, 0.0], None)
    assert texts([base]) == texts(load("mix").translate([Request("w4")]))
    [quick] = load("gad").translate([Request("w4")], with_gates=False)
    assert quick.candidates[0].text == gated.candidates[0].text
    assert (quick.weights, quick.gates) == (None, None)


def test_gates_by_token_are_the_hubs_and_mean_those_by_layer(load: Load, exported: Path) -> None:
    translator = load("gad")
    hub = DomainTranslator.from_pretrained(exported / "gad")
    found = hub.translate_with_gates(LINES, **SEARCH)
    for answer, (text, gates) in zip(translator.translate([Request(line) for line in LINES]), found, strict=True):
        assert " ".join(answer.tokens.pieces[:-1]) == answer.candidates[0].text == text
        assert answer.tokens.pieces[-1] == "</s>"
        assert torch.tensor(answer.tokens.weights) == pytest.approx(gates["tokens"], abs=1e-6)
        by_layer, by_token = (torch.tensor(rows).mean(0) for rows in (answer.gates["decoder"], answer.tokens.weights))
        assert by_token == pytest.approx(by_layer, abs=1e-6)
    assert [answer.tokens for answer in translator.translate([Request("w4", "med"), Request("")])] == [None, None]


def test_candidates_come_best_first(load: Load, exported: Path) -> None:
    [answer] = load("mix").translate([Request("w4 w5")], candidates=3)
    scores = [candidate.score for candidate in answer.candidates]
    assert len({candidate.text for candidate in answer.candidates}) == 3
    assert scores == sorted(scores, reverse=True)
    [scored] = DomainTranslator.from_pretrained(exported / "mix").score(["w4 w5"], [answer.candidates[0].text])
    assert scores[0] == pytest.approx(float(scored["score"]) / math.log(2))
    for candidates, beam in ((4, None), (0, None), (1, 1000)):
        with pytest.raises(InputError, match="candidates is "):
            load("mix").translate([Request("w4")], candidates=candidates, beam=beam)


def test_nothing_is_nothing(load: Load) -> None:
    assert load("gad").translate([]) == []
    for text in ("", "  \t", "\u2028", "\ufeff"):
        [empty, _] = load("gad").translate([Request(text), Request("w1")])
        assert [candidate.text for candidate in empty.candidates] == [text]
    [mark] = load("gad").translate([Request("\U000f0001 ")])
    assert mark.candidates[0].text == "\U000f0001"


def test_text_is_normalised_as_in_training(load: Load) -> None:
    assert load("mix").reader.normalise(["a\u2028b\r", "“e\u0301”  ( x )"]) == ["a b", '"é" (x)']


def test_too_long_a_text_is_translated_by_sentences(exported: Path) -> None:
    translator = SystemTranslator.load(exported / "gad")
    whole = "w4 w5. w6 w7 w8! w9"
    translator.text.vocabulary = dataclasses.replace(translator.text.vocabulary, longest_source=4)
    parts = translator.translate([Request(part, "law") for part in ("w4 w5.", "w6 w7 w8!", "w9")])
    [joined] = translator.translate([Request(whole, "law")])
    assert joined.candidates[0].text == " ".join(texts(parts))
    assert min(texts(parts)) != ""
    scores = [part.candidates[0].score for part in parts]
    assert min(scores) < joined.candidates[0].score < max(scores)
    [gated] = translator.translate([Request(whole, "gates")])
    assert sum(gated.gates["encoder"][0]) == pytest.approx(1)
    assert gated.tokens.pieces.count("</s>") == 3
    assert len(gated.tokens.weights) == len(gated.tokens.pieces)
    cut = translator.translate([Request(text, "law") for text in ("w4 w5 w9 w6 w7 w8", "w4 w5 w9", "w6 w7 w8")])
    assert texts(cut)[0] == " ".join(texts(cut)[1:])


@pytest.mark.parametrize("name", ["mix", "tag"])
def test_a_tag_in_a_text_is_refused(load: Load, name: str) -> None:
    for text in ("w1 <domain:law> w2", "<domain:law> w2"):
        with pytest.raises(InputError, match="request 1: .*reserved symbol <domain:law>"):
            load(name).translate([Request(text)])


def test_a_system_that_needs_a_domain_and_has_no_classifier_asks(exported: Path, load: Load) -> None:
    translator = load("ad")
    bare = SystemTranslator(translator.manifest, translator.model, translator.text, None)
    assert bare.default_route is None
    with pytest.raises(InputError, match="request 1: ad needs a route; choose one of base, law, med, sub"):
        bare.translate([Request("w1")])


def test_threads_share_the_batches(load: Load, exported: Path) -> None:
    requests = [Request(line * (1 + n), route) for n, line in enumerate(LINES * 4) for route in ROUTES["gad"]]
    threaded = SystemTranslator.load(exported / "gad", threads=2)
    assert texts(threaded.translate(requests)) == texts(load("gad").translate(requests))


@pytest.mark.slow
def test_an_exported_system_translates_without_torch_and_fairseq(exported: Path) -> None:
    command = [sys.executable, "-c", ON_A_SERVER, str(exported / "gad")]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    answers = SystemTranslator.load(exported / "gad").translate([Request("w1 w4"), Request("w2 w5", "classifier")])
    assert found == [[each.candidates[0].text, each.domain, each.weights] for each in answers]

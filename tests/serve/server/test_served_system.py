"""A system with a model, served: what many clients get at once is what it translates offline."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from fairseq_ext.base.domain_names import with_base
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.serve.server.app import make_app
from fairseq_ext.serve.server.limits import Limits

LINES = ["w4 w5 w6", "w7 w8", "w9", "", "w10 w11 w12 w13", "w1 w2 w1"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gad", "ad"])
def test_many_clients_get_what_offline_translation_finds(name: str, exported: Path) -> None:
    system = SystemTranslator.load(exported / name)
    work = [(line, route) for line in LINES for route in system.routes]
    expected = system.translate([Request(*each) for each in work], candidates=2)
    app = make_app(system, limits=Limits(max_tokens=16))
    with TestClient(app, base_url="http://localhost") as client, ThreadPoolExecutor(8) as clients:

        def translate(each: tuple[str, str]) -> dict:
            body = {"texts": [{"text": each[0], "route": each[1]}], "candidates": 2, "gates": "tokens"}
            [answer] = client.post("/translate", json=body).json()["translations"]
            return answer

        found = list(clients.map(translate, work))
    for answer, wanted in zip(found, expected, strict=True):
        assert answer["text"] == wanted.candidates[0].text
        assert answer["score"] == pytest.approx(wanted.candidates[0].score, abs=1e-3)
        assert (answer["route"], answer["domain"]) == (wanted.route, wanted.domain)
        assert len(answer.get("candidates", [None])) == len(wanted.candidates)
        weights = None if wanted.weights is None else with_base(dict(zip(system.domains, wanted.weights, strict=True)))
        assert answer["weights"] == (None if weights is None else pytest.approx(weights, abs=1e-3))
        assert (answer["tokens"] or {}).get("pieces") == (wanted.tokens and wanted.tokens.pieces)

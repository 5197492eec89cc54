"""A system with a model, served: what many clients get at once is what it translates offline."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from fairseq_ext.runtime.requests import Request
from fairseq_ext.runtime.translator import SystemTranslator
from fairseq_ext.serving.app import make_app
from fairseq_ext.serving.limits import Limits
from tests.translators.conftest import exported  # noqa: F401  a fixture

LINES = ["w4 w5 w6", "w7 w8", "w9", "", "w10 w11 w12 w13", "w1 w2 w1"]


def serve(system: SystemTranslator) -> TestClient:
    app = make_app(system, limits=Limits(max_tokens=16))
    return TestClient(app, base_url="http://localhost")


@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=pytest.mark.slow) for name in ("mix", "tag", "gad")), "ad"]
)
def test_many_clients_get_what_offline_translation_finds(name: str, exported: Path) -> None:  # noqa: F811
    system = SystemTranslator.load(exported / name)
    work = [(line, route) for line in LINES for route in system.routes]
    expected = system.translate([Request(*each) for each in work], candidates=2)
    with serve(system) as client, ThreadPoolExecutor(8) as clients:

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
        weights = None if wanted.weights is None else dict(zip(system.domains, wanted.weights, strict=True))
        assert answer["weights"] == (None if weights is None else pytest.approx(weights, abs=1e-3))
        assert (answer["gates"] is None) == (wanted.gates is None)
        assert (answer["tokens"] is None) == (wanted.tokens is None)
        if wanted.tokens is not None:
            assert answer["tokens"]["pieces"] == wanted.tokens.pieces
            rows = zip(*answer["tokens"]["weights"].values(), strict=True)
            for row, wanted_row in zip(rows, wanted.tokens.weights, strict=True):
                assert row == pytest.approx(wanted_row, abs=1e-3)


def test_what_the_system_refuses_is_a_clients_mistake(exported: Path) -> None:  # noqa: F811
    with serve(SystemTranslator.load(exported / "ad")) as client:
        long, typed, wide = (
            client.post("/translate", json={"route": "law", **body})
            for body in (
                {"texts": ["w1", "w2 " * 2000]},
                {"texts": ["<domain:law> w1"]},
                {"texts": ["w1"], "candidates": 9},
            )
        )
    assert [response.status_code for response in (long, typed, wide)] == [200, 422, 422]
    assert len(long.json()["translations"]) == 2
    assert "texts[0]: " in typed.json()["error"]
    assert "candidates 9, beam 3" in wide.json()["error"]

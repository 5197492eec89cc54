"""Requests as the programs of translators send them: LibreTranslate's client, Weblate, OPUS-CAT's plug-ins."""

from collections.abc import Iterator
from typing import Any

import pytest
from libretranslatepy import LibreTranslateAPI
from starlette.testclient import TestClient

from tests.serve.server.fake_server import Served, served
from tests.serve.server.test_app import TOKEN, client_of


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    with served(token=TOKEN) as service:
        yield service


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of() as client:
        yield client


def api(service: Served, path: str = "", key: str | None = TOKEN) -> LibreTranslateAPI:
    return LibreTranslateAPI(f"http://127.0.0.1:{service.port}{path}", key)


@pytest.mark.slow
def test_libretranslates_own_client(service: Served) -> None:
    found = api(service)
    assert found.languages() == [
        {"code": "en", "name": "English", "targets": ["pl"]},
        {"code": "pl", "name": "Polish", "targets": []},
    ]
    assert found.translate("law of the sea", "en", "pl") == "sea the of law"
    [best, other] = found.detect("Where is the next station, please?")
    assert (best["language"], other["language"]) == ("en", "pl")
    assert best["confidence"] > other["confidence"]
    assert api(service, "/d/med").translate("a b", "en", "pl") == "b a [med]"
    assert api(service, key=None).languages()


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        # As Weblate asks, which has put marks for placeholders.
        ({"q": ["Open [X5X] now", "a\nb", ""], "api_key": ""}, {"translatedText": ["Open [X5X] now", "a\nb", ""]}),
        ({"q": "a b", "domain": "law"}, {"translatedText": "b a [law]"}),
        ({"q": ["a b"], "alternatives": 1}, {"translatedText": ["b a"], "alternatives": [["b a"]]}),
        ({"q": "<p class='x>y'>a <b>b c</b>", "format": "html"}, {"translatedText": "<p class='x>y'>a <b>c b</b>"}),
        ({"q": "x &lt; y &amp;c", "format": "html"}, {"translatedText": "&amp;c y &lt; x"}),
        ({"q": "x < y", "format": "text", "target": "PL_pl"}, {"translatedText": "y < x"}),
        ({"q": "a b", "alternatives": -1}, {"translatedText": "b a"}),
        ({"q": "\ufeffa"}, {"translatedText": "\ufeffa"}),
        ({"q": ""}, {"translatedText": ""}),
        ({"q": "a {0} b", "placeholders": "none"}, {"translatedText": "b {0} a"}),
    ],
)
def test_what_libretranslates_request_may_hold(client: TestClient, sent: dict[str, Any], answer: Any) -> None:
    body = {"source": "en", "target": "pl", **sent}
    assert client.post("/translate", json=body).json() == answer
    if isinstance(sent["q"], str):
        assert client.post("/translate", data=body).json() == answer


def test_what_else_libretranslates_programs_ask(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    found = client.get("/frontend/settings").json()
    assert (found["keyRequired"], found["language"]["target"]) == (False, {"code": "pl", "name": "Polish"})
    assert client.post("/detect", json={}).status_code == 400
    assert client.post("/d/news/translate", json={"q": "a", "target": "pl"}).status_code == 400


def test_opus_cats_plug_ins(client: TestClient) -> None:
    """OmegaT leaves the model's tag empty; Trados and memoQ have a field for it."""
    get = lambda path, **query: client.get(f"/MTRestService/{path}", params={"tokenCode": "0", **query}).json()  # noqa: E731
    pair = {"srcLangCode": "en", "trgLangCode": "pl"}
    assert get("ListSupportedLanguagePairs") == ["en-pl"]
    assert get("GetLanguagePairModelTags", **pair) == ["law", "med", "sub"]
    assert get("TranslateJson", input="a b {0} c & d", modelTag="", **pair) == {"translation": "b a {0} d & c"}
    assert get("TranslateJson", input="a b", modelTag="law", **pair) == {"translation": "b a [law]"}
    assert client.get("/d/med/MTRestService/TranslateJson", params={"input": "a", **pair}).json() == {
        "translation": "a [med]"
    }
    for wrong in ({"modelTag": "news"}, {"trgLangCode": "de"}, {"srcLangCode": ""}):
        response = client.get("/MTRestService/TranslateJson", params={"input": "a", **pair, **wrong})
        assert response.status_code == 400


def test_each_program_has_its_own_place_for_the_token() -> None:
    query, body = {"input": "a", "srcLangCode": "en", "trgLangCode": "pl"}, {"q": "a", "source": "en", "target": "pl"}
    with client_of(token=TOKEN) as client:
        for token, status in ((TOKEN, 200), ("0", 401), ("", 401)):
            found = client.get("/MTRestService/TranslateJson", params={"tokenCode": token, **query})
            assert found.status_code == status
            found = client.post("/translate", json={"api_key": token, **body})
            assert found.status_code == (403 if status == 401 else status)

"""Requests as the programs of translators send them: clients of LibreTranslate, Weblate, OPUS-CAT's plug-ins."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from libretranslatepy import LibreTranslateAPI
from starlette.testclient import TestClient

from tests.serve.server.fake_server import Served, served
from tests.serve.server.test_app import TOKEN, client_of

PAIR = {"source": "en", "target": "pl"}
HELLO = {"q": "Hello world", **PAIR}
XLIFF = (
    '<xliff version="1.2"><file source-language="en" target-language="pl"><body><trans-unit id="1">'
    "<source>a b</source></trans-unit></body></file></xliff>"
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client_of(corrections=tmp_path_factory.mktemp("corrections")) as client:
        yield client


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    with served(token=TOKEN) as service:
        yield service


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
    ("method", "path", "sent", "status", "answer"),
    [
        ("get", "/health", {}, 200, {"status": "ok"}),
        ("post", "/health", {}, 405, None),
        ("get", "/spec", {}, 200, None),
        ("post", "/spec", {}, 405, None),
        ("get", "/frontend/settings", {}, 200, None),
        ("get", "/languages", {}, 200, {"code", "name"}),
        ("post", "/languages", {}, 405, None),
        ("post", "/detect", {"data": {"q": "Hello"}}, 200, {"confidence", "language"}),
        ("post", "/detect", {}, 400, {"error": "Invalid request: missing q parameter"}),
        ("get", "/detect", {}, 405, None),
        ("post", "/translate", {"data": {**HELLO, "format": "text"}}, 200, {"translatedText": "world Hello"}),
        ("post", "/translate", {"json": {**HELLO, "q": ["a b", "c"]}}, 200, {"translatedText": ["b a", "c"]}),
        ("post", "/translate", {"data": {**HELLO, "target": "zz"}}, 400, {"error": "zz is not supported"}),
        ("post", "/translate", {"data": PAIR}, 400, {"error": "Invalid request: missing q parameter"}),
    ],
)
def test_its_fourteen_tests(
    client: TestClient, method: str, path: str, sent: dict[str, Any], status: int, answer: Any
) -> None:
    response = client.request(method, path, **sent)
    assert response.status_code == status
    if isinstance(answer, set):
        assert all(answer <= each.keys() for each in response.json())
    elif answer:
        assert response.json() == answer


def test_its_description_names_every_path(client: TestClient) -> None:
    paths = client.get("/spec").json()["paths"]
    assert paths["/translate"].keys() == {"post"}
    assert {"/detect", "/languages", "/suggest", "/translate_file"} < paths.keys()


@pytest.mark.parametrize(
    ("path", "sent", "said"),
    [
        ("/translate", {**HELLO, "q": []}, "Invalid request: missing q parameter"),
        ("/translate", {"q": "a", "target": "pl"}, "Invalid request: missing source parameter"),
        ("/translate", {"q": "a", "source": "en"}, "Invalid request: missing target parameter"),
        (
            "/translate",
            {**HELLO, "target": "en"},
            "English (en) is not available as a target language from English (en)",
        ),
        ("/translate", {**HELLO, "source": "zz"}, "zz is not supported"),
        ("/translate", {**HELLO, "source": "pl"}, "pl is not supported"),
        ("/translate", {**HELLO, "q": ["a", None]}, '"q" is None; give a text'),
        (
            "/translate",
            {**HELLO, "domain": "news"},
            "the request: unknown \"domain\" 'news'; choose one of law, med, sub",
        ),
        ("/d/news/translate", HELLO, "the request: unknown \"domain\" 'news'; choose one of law, med, sub"),
        ("/translate", {**HELLO, "format": "xml"}, "xml format is not supported"),
        ("/translate", {**HELLO, "alternatives": "abc"}, "Invalid request: alternatives parameter is not a number"),
        ("/translate", ["not", "a", "dict"], "Invalid JSON format"),
        ("/suggest", {"q": "a", **PAIR}, "Invalid request: missing s parameter"),
        ("/suggest", {"s": "a", **PAIR}, "Invalid request: missing q parameter"),
        ("/suggest", {"q": "a", "s": "b", "target": "pl"}, "Invalid request: missing source parameter"),
        ("/translate_file", PAIR, "Invalid request: missing file parameter"),
        ("/translate_file", {**PAIR, "file": "x"}, "Invalid request: empty file"),
    ],
)
def test_errors_have_its_words(client: TestClient, path: str, sent: Any, said: str) -> None:
    response = client.post(path, json=sent)
    assert (response.status_code, response.json()) == (400, {"error": said})


def test_limits_have_its_words() -> None:
    with client_of(limits={"max_texts": 2, "max_characters": 9}) as client:
        for q, size, most in ((["a"] * 3, 3, 2), ("a" * 10, 10, 9)):
            response = client.post("/translate", json={**HELLO, "q": q})
            assert response.status_code == 400
            assert response.json() == {"error": f"Invalid request: request ({size}) exceeds text limit ({most})"}


def test_answers_have_its_form(client: TestClient) -> None:
    assert client.post("/translate", data={**HELLO, "q": "😀"}).json() == {"translatedText": "😀"}
    for count, found in ((3, 3), ("2", 2), (-1, None), (99, 15)):
        answer = client.post("/translate", json={**HELLO, "alternatives": count}).json()
        assert (len(answer["alternatives"]) if found else answer.get("alternatives")) == found
    settings = client.get("/frontend/settings").json()
    assert [settings[key] for key in ("suggestions", "filesTranslation", "keyRequired")] == [True, True, False]
    assert settings["language"]["target"] == {"code": "pl", "name": "Polish"}
    assert ".txt" in settings["supportedFilesFormat"]


@pytest.mark.parametrize(
    ("text", "language", "least"),
    [
        ("This is a sentence written in English for testing purposes", "en", 90),
        ("Bonjour tout le monde, je voudrais ouvrir le fichier", "fr", 90),
        ("Chciałbym otworzyć ten plik, ale nie mogę", "pl", 90),
        ("Hello there", "en", 0),
        ("", "en", 0),
    ],
)
def test_auto_says_what_it_detected(client: TestClient, text: str, language: str, least: float) -> None:
    found = client.post("/translate", json={"q": text, "source": "auto", "target": "pl"}).json()["detectedLanguage"]
    assert found["language"] == language
    assert least <= found["confidence"] <= 100
    assert client.post("/detect", data={"q": text}).json()[0] == found
    [listed] = client.post("/detect", json={"q": [text]}).json()
    assert {"en", "pl"} <= {each["language"] for each in listed}


TEXT = "Größe ’🎉 of"
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    "given",
    [
        {"content": f"q={TEXT}&source=en&target=pl".encode(), "headers": FORM},  # as curl -d
        {"data": {"q": TEXT, **PAIR}},
        {"params": {"q": TEXT, **PAIR}},  # deep-translator
        {"files": {key: (None, value) for key, value in {"q": TEXT, **PAIR}.items()}},  # as curl -F
        {"json": {"q": TEXT, **PAIR}},
        {"content": b"\xef\xbb\xbf" + json.dumps({"q": TEXT, **PAIR}).encode(), "headers": JSON},
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/translate", "//translate"])
def test_requests_come_in_many_shapes(client: TestClient, path: str, given: dict[str, Any]) -> None:
    response = client.post(f"http://localhost:8000{path}", **given)
    assert response.json() == {"translatedText": "of ’🎉 Größe"}


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
    body = {**PAIR, **sent}
    assert client.post("/translate", json=body).json() == answer
    if isinstance(sent["q"], str):
        assert client.post("/translate", data=body).json() == answer


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
    query, body = {"input": "a", "srcLangCode": "en", "trgLangCode": "pl"}, {"q": "a", **PAIR}
    with client_of(token=TOKEN) as client:
        for token, status in ((TOKEN, 200), ("0", 401), ("", 401)):
            found = client.get("/MTRestService/TranslateJson", params={"tokenCode": token, **query})
            assert found.status_code == status
            found = client.post("/translate", json={"api_key": token, **body})
            assert found.status_code == (403 if status == 401 else status)


def test_a_key_counts_beside_a_proxys_password() -> None:
    basic = {"Authorization": f"Basic {base64.b64encode(b'a:b').decode()}"}
    with client_of(token=TOKEN) as client:
        for given in ({"json": {**HELLO, "api_key": TOKEN}}, {"json": HELLO, "params": {"api_key": TOKEN}}):
            assert client.post("/translate", headers=basic, **given).status_code == 200
        assert client.post("/translate", headers=basic, json=HELLO).status_code == 403
        assert client.post("/translate", headers=basic, json={**HELLO, "api_key": "0"}).status_code == 403
        assert client.post("/suggest", json={**HELLO, "s": "a", "api_key": TOKEN}).status_code == 403  # disabled
        assert client.post("/translate_file", data=PAIR, files={"file": ("a.txt", b"a")}).status_code == 401


def send(client: TestClient, name: str, data: bytes, path: str = "/translate_file", **more: Any) -> Any:
    return client.post(path, data={**PAIR, **more.pop("data", {})}, files={"file": (name, data)}, **more)


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("a.txt", b"a b\n\nc %s\r\n", b"b a\n\nc %s\r\n"),
        ("../x y.xlf", XLIFF.encode(), b"b a</target>"),
        ("a.html", b"<p>a <b>b</b></p>", b"<p>a <b>b</b></p>"),
    ],
)
def test_a_file_is_translated_and_fetched(client: TestClient, name: str, data: bytes, found: bytes) -> None:
    url = send(client, name, data).json()["translatedFileUrl"]
    response = client.get(url)
    assert found in response.content
    assert url.endswith(("/a_pl.txt", "/x_y_pl.xlf", "/a_pl.html"))
    assert response.headers["content-disposition"].startswith("attachment")


def test_a_files_progress_comes_in_lines(client: TestClient) -> None:
    response = send(
        client, "a.txt", b"a b\n" * 40, headers={"Accept": "application/x-ndjson"}, path="/d/law/translate_file"
    )
    steps = [json.loads(line) for line in response.text.splitlines()]
    assert [step["done"] for step in steps] == [0, 32, 40]
    assert client.get(steps[-1]["translatedFileUrl"]).text == "b a [law]\n" * 40


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.exe", b"MZ", "Invalid request: file format not supported"),
        ("a.txt", b'{"a": "b"}', "Invalid request: file format not supported"),
        ("a.txt", b"\xff", "the file: is not valid utf-8"),
        ("a.xlf", b"<tmx/>", "the file: has no <xliff>"),
        ("a.txt", b"a" * 2000, "larger than 1500 bytes"),
    ],
)
def test_a_file_that_cannot_be_translated_is_refused(name: str, data: bytes, said: str) -> None:
    with client_of(limits={"max_file_bytes": 1500}) as client:
        response = send(client, name, data)
        assert response.status_code == 400
        assert said in response.json()["error"]
        assert client.get("/download_file/..%2f..%2fetc").status_code == 400
        assert "error" in json.loads(send(client, name, data, headers={"Accept": "application/x-ndjson"}).text)


def test_corrections_are_kept_by_domain(tmp_path: Path) -> None:
    better = {"q": "a\nb", "s": "c ö", **PAIR}
    with client_of(corrections=tmp_path / "new") as client:
        assert client.post("/suggest", data=better).json() == {"success": True}
        assert client.post("/d/law/suggest", json=better).json() == {"success": True}
        assert client.post("/suggest", json={**better, "domain": "law", "q": "d"}).json() == {"success": True}
        assert client.post("/suggest", json={**better, "domain": "../law"}).status_code == 400
        assert client.post("/suggest", json={**better, "s": 1}).status_code == 400
    kept = {path.name: [json.loads(line) for line in path.open()] for path in (tmp_path / "new").iterdir()}
    first = {"source": "a\nb", "target": "c ö"}
    assert kept == {"general.jsonl": [first], "law.jsonl": [first, {"source": "d", "target": "c ö"}]}
    with client_of() as client:
        assert client.post("/suggest", data=better).status_code == 403

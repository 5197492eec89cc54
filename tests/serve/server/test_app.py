"""The end points, and who may use them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.server.app import PAGE, make_app
from fairseq_ext.serve.server.guard import read_token
from fairseq_ext.serve.server.limits import Limits
from tests.serve.server.fake_system import DOMAINS, FakeSystem

TOKEN = "0123456789abcdef"


def client_of(system: Any = None, **given: Any) -> TestClient:
    limits = Limits(**{"max_bytes": 1000, "window": 0, **given.pop("limits", {})})
    app = make_app(system or FakeSystem(), limits=limits, **given)
    return TestClient(app, base_url="http://localhost:8000")


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of() as client:
        yield client


def test_a_translation_comes_with_its_weights_and_times(client: TestClient) -> None:
    response = client.post(
        "/translate", json={"texts": ["law of the sea", {"text": "a b", "domain": "med"}], "gates": "layers"}
    )
    assert response.status_code == 200
    content = response.json()
    gated, forced = content["translations"]
    assert (gated["text"], gated["route"], gated["domain"]) == ("sea the of law", "gates", None)
    assert gated["weights"] == {"law": 0.7, "med": 0.15, "sub": 0.15}
    assert gated["gates"] == {side: [gated["weights"]] * 3 for side in ("encoder", "decoder")}
    assert (forced["text"], forced["domain"], forced["weights"]["med"]) == ("b a [med]", "med", 1.0)
    assert "candidates" not in gated
    assert 0 <= content["seconds"]["waited"] <= content["seconds"]["total"]


def test_what_there_is_to_ask_for(client: TestClient) -> None:
    content = client.get("/info").json()
    assert (content["system"], content["languages"], content["domains"]) == ("GAD", ["en", "pl"], DOMAINS)
    assert content["routes"] == ["gates", "classifier", "base", *DOMAINS]
    assert content["limits"]["bytes"] == 1000
    assert content["base"] == FakeSystem.base


@pytest.mark.parametrize(
    ("status", "said", "given"),
    [
        (415, "Content-Type: application/json", {"content": b'{"texts": ["a"]}'}),
        (413, "larger than 1000 bytes", {"json": {"texts": ["a" * 1000]}}),
        (500, "the translation failed (RuntimeError)", {"json": {"texts": ["broken"]}}),
    ],
)
def test_refusals_are_one_line_of_json(client: TestClient, status: int, said: str, given: dict[str, Any]) -> None:
    response = client.post("/translate", **given)
    assert response.status_code == status
    assert said in response.json()["error"]
    assert "\n" not in response.json()["error"]


def test_metrics_count_requests_texts_and_batches() -> None:
    with client_of() as client:
        client.post("/translate", json={"texts": ["a b", "c"], "domain": "law"})
        client.post("/translate", json={"texts": []})
        response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    for name, value in {
        'requests_total{status="200"}': 1,
        'requests_total{status="422"}': 1,
        'sentences_total{route="law"}': 2,
        "source_tokens_total": 5,
        "batch_sentences_sum": 2,
        "queue_sentences": 0,
    }.items():
        assert f"\ntranslation_{name} {value}.0\n" in response.text
    assert "\nprocess_resident_memory_bytes " in response.text


def test_health_tells_of_the_thread_and_of_the_queue(client: TestClient) -> None:
    assert [client.get(f"/health/{name}").json() for name in ("live", "ready")] == [{"live": True}, {"ready": True}]
    unstarted = client_of()
    assert [unstarted.get(f"/health/{name}").status_code for name in ("live", "ready")] == [503, 503]


def test_only_names_of_this_machine_are_answered_unless_others_may_ask(client: TestClient) -> None:
    for host in ("localhost:8000", "127.9.9.9", "[::1]:8000", "LOCALHOST"):
        assert client.get("/info", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "127.0.0.1.evil.example:8000", "evil@localhost", "10.0.0.1", ""):
        for path in ("/", "/info", "/health/live"):
            assert client.get(path, headers={"Host": host}).status_code == 421
    with client_of(local=False, token=TOKEN) as public:
        assert public.get("/", headers={"Host": "mt.example"}).status_code == 200


def test_other_sites_may_read_nothing(client: TestClient) -> None:
    origin = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for response in (client.options("/translate", headers=origin), client.get("/info", headers=origin)):
        assert not [name for name in response.headers if name.startswith("access-control")]
        assert response.headers["cross-origin-resource-policy"] == "same-origin"
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert client.post("/translate", data={"q": "a", "target": "pl"}, headers=headers).status_code == 403
    assert client.get("/", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:8000"}, 200),
        ({"Origin": "http://localhost:8000"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
def test_a_page_of_another_port_needs_the_token(client: TestClient, headers: dict[str, str], status: int) -> None:
    assert client.post("/translate", json={"texts": ["a"]}, headers=headers).status_code == status
    with client_of(token=TOKEN) as guarded:
        headers = {**headers, "Authorization": f"Bearer {TOKEN}"}
        assert guarded.post("/translate", json={"texts": ["a"]}, headers=headers).status_code == 200


def test_a_token_is_asked_for_but_for_the_page_and_health() -> None:
    with client_of(token=TOKEN) as client:
        for path in ("/", "/page/page.js", "/health/live", "/health/ready"):
            assert client.get(path).status_code == 200
        for given in ("", f"Basic {TOKEN}", f"Bearer {TOKEN}0", "Bearer ü"):
            headers = {"Authorization": given.encode()} if given else {}
            asked = [client.get(path, headers=headers) for path in ("/info", "/nothing")]
            for response in (*asked, client.post("/translate", headers=headers, json={"texts": ["a"]})):
                assert response.status_code == 401
                assert response.headers["www-authenticate"] == "Bearer"
        assert client.get("/info", headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("content", [b"short\n", b"two lines of it\nand more\n", b"\xff" * 20])
def test_a_token_file_holds_one_token(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(InputError, match=rf"--token-file {re.escape(str(file))}: "):
        read_token(file)
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN


def test_the_page_needs_nothing_but_its_own_files(client: TestClient) -> None:
    response = client.get("/")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    used = set(re.findall(r'(?:src|href)="([^"]+)"', response.text))
    assert used == {f"/page/{path.name}" for path in PAGE.iterdir()} - {"/page/index.html"}
    for path in used:
        assert client.get(path).status_code == 200
    texts = [path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "") for path in PAGE.iterdir()]
    assert not [text for text in texts if re.search(r"https?:|@import|url\(|innerHTML|style=|\bon\w+=", text)]


def test_a_system_is_loaded_again_by_who_has_the_token() -> None:
    class Other(FakeSystem):
        name, domains, routes = "OTHER", ["law"], ["gates", "base", "law"]

    def fail() -> FakeSystem:
        raise InputError("system.json: damaged")

    loads = iter([Other, fail])
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with client_of(token=TOKEN, load=lambda: next(loads)()) as client:
        assert client.post("/reload").status_code == 401
        assert client.post("/reload", headers=headers).json()["system"] == "OTHER"
        body = {"texts": ["a b"], "gates": "weights"}
        assert client.post("/translate", json={**body, "domain": "med"}, headers=headers).status_code == 422
        failed = client.post("/reload", headers=headers)
        assert (failed.status_code, "damaged" in failed.json()["error"]) == (422, True)
        assert client.get("/info", headers=headers).json()["domains"] == ["law"]
    with client_of(load=lambda: Other()) as client:  # type: ignore[arg-type, return-value]
        assert client.post("/reload").status_code == 403

"""Clients that are slow, that leave, or that speak no HTTP, over real sockets."""

import contextlib
import json
import pkgutil
import socket
import threading
import time
from typing import Any

import pytest

from tests.serve.server.fake_server import TIMEOUT, Served, answer_of, head, served
from tests.waiting import wait_until


def test_a_client_that_leaves_has_its_waiting_work_dropped() -> None:
    with served(window=0) as service:
        first = service.post("wait")
        assert service.system.waits.wait(TIMEOUT)
        gone, stays = service.post("never", "ever"), service.post("a b")
        wait_until(lambda: service.metric("translation_queue_sentences") == 3, "not counted")
        gone.close()
        wait_until(lambda: service.metric("translation_queue_sentences") == 1, "not counted")
        service.system.go.set()
        assert answer_of(stays)[1]["translations"][0]["text"] == "b a"
        assert answer_of(first)[0] == 200
        assert service.system.batches == [["wait"], ["a b"]]
        assert service.metric("translation_dropped_sentences_total") == 2
        assert service.metric('translation_requests_total{status="499"}') == 1


@pytest.mark.parametrize("place", ["app.read_content", "app.read_order", "batcher.Batcher.submit"])
def test_health_is_answered_while_a_request_is_read(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, go = threading.Event(), threading.Event()
    read = pkgutil.resolve_name(f"fairseq_ext.serve.server.{place}")

    def read_later(*given: Any) -> Any:
        reads.set()
        assert go.wait(TIMEOUT)
        return read(*given)

    monkeypatch.setattr(f"fairseq_ext.serve.server.{place}", read_later)
    with served() as service:
        client = service.post("a b")
        assert reads.wait(TIMEOUT)
        with service.connect() as other:
            other.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(12) == b"HTTP/1.1 200"
        go.set()
        assert answer_of(client)[0] == 200


def test_a_client_that_leaves_within_its_body_disturbs_nobody() -> None:
    with served() as service:
        with service.connect() as client:
            client.sendall(head(b"", length=100) + b'{"texts"')
        assert answer_of(service.post("a b"))[0] == 200
        wait_until(lambda: service.metric('translation_requests_total{status="499"}') == 1, "not counted")


def test_a_body_that_does_not_come_ends_in_408() -> None:
    with served(patience=0.1) as service:
        client = service.connect()
        client.sendall(head(b"", length=100) + b'{"texts"')
        status, content = answer_of(client)
        assert status == 408
        assert "longer than 0.1 s" in content["error"]


@pytest.mark.parametrize("sent", [b"", b"POST /translate HTT", b"GET /info HTTP/1.1\r\nHost: localhost\r\nA: "])
def test_a_head_that_does_not_come_ends_the_connection(sent: bytes) -> None:
    with served(patience=0.1) as service, service.connect() as client:
        client.sendall(sent)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(100) == b""


def test_idle_connections_do_not_keep_others_out() -> None:
    with served(connections=4) as service:
        idle = [service.connect() for _ in range(8)]
        client = service.connect()
        client.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        assert answer_of(service.post("a b"))[0] == 200
        for each in (*idle, client):
            each.close()


def test_one_connection_too_many_is_told_to_come_back_and_liveness_is_answered() -> None:
    with served(connections=2, window=0) as service:
        busy = [service.post("wait"), service.post("a")]
        assert service.system.waits.wait(TIMEOUT)
        time.sleep(0.3)  # a question that overtakes the second request would take its place
        wait_until(lambda: not ready(service), "not counted")
        with service.post("b") as late, late.makefile("rb") as file:
            answer = file.read()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 5\r\n" in answer.lower()
        assert "error" in json.loads(answer.partition(b"\r\n\r\n")[2])
        with service.connect() as live:
            live.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert live.recv(12) == b"HTTP/1.1 200"
        service.system.go.set()
        assert [answer_of(client)[0] for client in busy] == [200, 200]
        assert answer_of(service.post("c"))[0] == 200


def ready(service: Served) -> bool:
    with service.connect() as client:
        client.sendall(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return client.recv(12) == b"HTTP/1.1 200"


def test_an_answer_that_is_not_read_ends_the_connection() -> None:
    with served(patience=0.3) as service, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(TIMEOUT)
        client.connect(("127.0.0.1", service.port))
        request = b"GET /page/page.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(1_000_000):  # requests one after the other, until no more answers fit between the two
                client.sendall(request)
            raise AssertionError
        assert answer_of(service.post("a b"))[0] == 200

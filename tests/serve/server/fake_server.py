"""The service of a fake system on a port of its own, and clients that speak HTTP as they like."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairseq_ext.serve.server.app import make_app
from fairseq_ext.serve.server.limits import Limits
from fairseq_ext.serve.server.server import listen, make_server
from tests.serve.server.fake_system import FakeSystem

TIMEOUT = 60  # seconds for what takes milliseconds


class Served:
    """A running service at a port of 127.0.0.1."""

    def __init__(self, system: FakeSystem, port: int) -> None:
        self.system = system
        self.port = port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), TIMEOUT)

    def post(self, *texts: str, **more: Any) -> socket.socket:
        """Send a request; its answer is still to be read."""
        client = self.connect()
        client.sendall(head(body := json.dumps({"texts": texts, **more}).encode()) + body)
        return client

    def metric(self, line: str) -> float:
        """The value of a metric, by its name and labels."""
        client = self.connect()
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with client, client.makefile("rb") as file:
            found = [each.split()[-1] for each in file.read().decode().splitlines() if each.startswith(f"{line} ")]
        return float(found[0]) if found else 0.0


def head(body: bytes, length: int | None = None) -> bytes:
    """The head of a request with a body, which may promise another length."""
    return (
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n" % (len(body) if length is None else length)
    )


def answer_of(client: socket.socket) -> tuple[int, dict[str, Any]]:
    """Status and content of an answer, after which the connection ends."""
    with client, client.makefile("rb") as file:
        first, _, rest = file.read().partition(b"\r\n")
    return int(first.split()[1]), json.loads(rest.partition(b"\r\n\r\n")[2])


@contextlib.contextmanager
def served(*, token: str | None = None, corrections: Path | None = None, **given: Any) -> Iterator[Served]:
    """Serve a fake system in a thread, with limits of one's own."""
    system, limits = FakeSystem(), Limits(**{"patience": TIMEOUT, "connections": 64, **given})
    app = make_app(system, limits=limits, token=token, corrections=corrections)  # type: ignore[arg-type]
    server = make_server(app, limits)
    listener = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # so that few answers fit in
        listener.listen()
        yield Served(system, listener.getsockname()[1])
    finally:
        system.go.set()
        server.should_exit = True
        thread.join(TIMEOUT)
        assert not thread.is_alive()

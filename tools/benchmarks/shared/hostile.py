"""Hostile requests beside small ones: what a small request and liveness wait, and what the service uses.

Each kind is sent once, while a small text is asked for every 50 ms and liveness every 20 ms. Then 512 connections
stay idle, 16 send a byte a second, and some thousand requests show whether memory grows.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

_JSON = "application/json"
_MOST, _LONGEST = 1 << 20, 19_990  # bytes of a body, characters of a text
_UNITS = ("{{", "%s a ", "a.", "a@a-", "<script>", "<ph>", ".", "a\t", "a|", "\u00a0a", "\U0001f600", "a<b>a</b> ")


def _kinds() -> dict[str, tuple[str, str, bytes]]:
    """Return requests by name: path, content type, body."""
    contents: dict[str, Any] = {
        "numbers": {"texts": [1] * 400_000},
        "empty texts": {"texts": [""] * 250_000},
        "terms": {"texts": ["a"], "terms": {f"t{number}": "x" for number in range(80_000)}},
        "keys": {"texts": ["a"], **{f"k{number}": 1 for number in range(80_000)}},
        "long terms": {"texts": ["a"] * 200, "terms": {"a": "xyz " * 4_000}},
        "beam": {"texts": ["word " * 15] * 256, "beam": 16, "candidates": 16, "gates": "tokens"},
        **{unit: {"texts": [unit * (_LONGEST // len(unit))]} for unit in _UNITS},
    }
    kinds = {name: ("/translate", _JSON, json.dumps(content).encode()) for name, content in contents.items()}
    return kinds | {
        "deep": ("/translate", _JSON, b"[" * (_MOST - 10)),
        "digits": ("/translate", _JSON, b'{"texts":["a"],"beam":' + b"9" * (_MOST - 100) + b"}"),
        "form": ("/translate", "application/x-www-form-urlencoded", b"q=a&" + b"a=1&" * 260_000),
        "multipart": ("/translate", "multipart/form-data; boundary=x", b"--x\r\n" * 200_000),
        "detect": ("/detect", _JSON, json.dumps({"q": "\u0301a" * 9_990}).encode()),
    }


def ask(port: int, path: str, kind: str = _JSON, body: bytes | None = None) -> tuple[int | str, float]:
    """Return the status, or the kind of failure, and the seconds of a request."""
    connection, start = http.client.HTTPConnection("127.0.0.1", port, timeout=120), time.monotonic()
    try:
        connection.request(
            "GET" if body is None else "POST", path, body, {} if body is None else {"Content-Type": kind}
        )
        answer = connection.getresponse()
        answer.read()
        return answer.status, time.monotonic() - start
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__, time.monotonic() - start
    finally:
        connection.close()


@contextlib.contextmanager
def watched(server: Any) -> Iterator[dict[str, Any]]:
    """Ask small things while the block runs, and put into the result how long they took."""
    small: list[float] = []
    live: list[float] = []
    found: dict[str, Any] = {}
    done, cpu = threading.Event(), server.cpu()

    def repeat(every: float, seconds: list[float], question: Callable[[], tuple[int | str, float]]) -> None:
        while not done.wait(every):
            status, needed = question()
            seconds.append(needed)
            if status != 200:
                found.setdefault("refused", []).append(status)

    text = json.dumps({"texts": ["This is a small test."]}).encode()
    threads = [
        # Daemons, so that a stopped benchmark does not wait for answers.
        threading.Thread(
            target=repeat, args=(0.05, small, lambda: ask(server.port, "/translate", body=text)), daemon=True
        ),
        threading.Thread(target=repeat, args=(0.02, live, lambda: ask(server.port, "/health/live")), daemon=True),
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    yield found
    time.sleep(0.5)
    done.set()
    for thread in threads:
        thread.join()
    found["small_p99_ms"] = round(1000 * statistics.quantiles(small, n=100, method="inclusive")[98])
    found["liveness_max_ms"] = round(1000 * max(live), 1)
    found |= {"cpu_s": round(server.cpu() - cpu, 2), "rss_mib": server.rss()}


def idle_and_slow(server: Any) -> dict[str, Any]:
    """Keep 512 connections idle and 16 that send a byte a second."""
    connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(528)]
    with watched(server) as found:
        for byte in b"POST ":
            for connection in connections[512:]:
                with contextlib.suppress(OSError):
                    connection.send(bytes([byte]))
            time.sleep(1)
    for connection in connections:
        connection.close()
    return found


def measure(server: Any, count: int) -> dict[str, Any]:
    """Return the figures of all kinds, and of ``count`` small requests in turn."""
    with watched(server) as quiet:
        time.sleep(3)
    rows: dict[str, Any] = {"nothing": quiet}
    for name, request in _kinds().items():
        with watched(server) as found:
            found["status"], seconds = ask(server.port, *request)
        rows[name] = found | {"seconds": round(seconds, 2)}
        print(name, rows[name], file=sys.stderr)
    rows["512 idle, 16 slow"] = idle_and_slow(server)
    body = json.dumps({"texts": ["a b c"]}).encode()
    memory: list[float] = []
    for number in range(count):
        ask(server.port, "/translate", body=body)
        if number % max(1, count // 10) == 0:
            memory.append(server.rss())
    return {"requests": rows, "rss_mib_by_tenth": memory, "exit": server.stop()}

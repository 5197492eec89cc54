"""HTTP server for an exported system, robust against slow and idle clients."""

from __future__ import annotations

import asyncio
import signal
import socket
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.serve.server.app import make_app
from fairseq_ext.serve.server.guard import is_loop_back, read_token
from fairseq_ext.serve.server.limits import Limits
from fairseq_ext.serve.server.refusals import RefusedError, refuse

_LIVENESS = "/health/live"


def serve(
    exported: Path,
    limits: Limits,
    *,
    host: str,
    port: int,
    token_file: Path | None = None,
    corrections: Path | None = None,
    **options: Any,
) -> None:
    """Serve an exported system until SIGTERM or Ctrl-C, then finish the accepted requests.

    Args:
        exported: path of the exported system.
        limits: limits of the service.
        host: address to listen on. Addresses reachable from other machines require ``token_file``.
        port: port to listen on; 0 for any free port.
        token_file: file with the token that clients must send.
        corrections: folder for corrections that clients send; None to refuse them.
        options: options of :meth:`SystemTranslator.load`.
    """
    local = is_loop_back(host)
    if not local and token_file is None:
        raise InputError(f"--host {host}: other machines could use the service; also give --token-file FILE")
    token = None if token_file is None else read_token(token_file)
    listener = listen(host, port)
    load = partial(SystemTranslator.load, exported, **options)
    system = load()
    app = make_app(system, limits=limits, local=local, token=token, load=load, corrections=corrections)
    server = make_server(app, limits)
    # uvicorn stops at these signals, and raises them again afterwards, which must not end the program.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    listener.listen()
    host, port = listener.getsockname()[:2]
    print(f"{system.name} at http://{f'[{host}]' if ':' in host else host}:{port}/ (Ctrl-C stops)", flush=True)
    server.run([listener])


def listen(host: str, port: int) -> socket.socket:
    """Return a bound socket, so that an address in use is detected before the system is loaded."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--host {host} --port {port}: cannot listen there ({error}); choose another address"
        ) from None
    return listener


def make_server(app: Any, limits: Limits) -> uvicorn.Server:
    """Return a uvicorn server without access log, with limits on time and connections."""
    config = uvicorn.Config(
        app,
        http=type("Protocol", (PatientProtocol,), {"patience": limits.patience, "most": limits.connections}),
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
    )
    return uvicorn.Server(config)


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with timeouts, and a connection limit that idle clients cannot exhaust.

    uvicorn itself waits forever for the head of a request and for a client to read its answer. With its own connection
    limit, everyone including health checks gets 503 while idle clients hold their connections.
    :func:`fairseq_ext.serve.server.body.read_body` limits the time for a body. If all connections are busy, further
    ones get 503, but liveness checks are answered, so that a busy service is not restarted.
    """

    patience = 20.0  # seconds for the head of a request, and for progress in reading an answer
    most = 512  # open connections; beyond this, the longest idle one is closed, or if none is idle, new ones get 503

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._idle_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self.most and not self._close_idlest():
            self.app = _refuse_all_but_liveness(self.app)  # type: ignore[assignment]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)
        self._await_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._head_timer, self._write_timer):
            if timer is not None:
                timer.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.patience, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()

    def _await_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        self._idle_since = self.loop.time()
        self._head_timer = self.loop.call_later(self.patience, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._is_idle():
            self.transport.abort()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _close_idlest(self) -> bool:
        idle = [other for other in self.connections if isinstance(other, PatientProtocol) and other._is_idle()]
        if idle:
            min(idle, key=lambda other: other._idle_since).transport.abort()
        return bool(idle)


def _refuse_all_but_liveness(app: Any) -> ASGIApp:
    refusal = RefusedError(503, "too many connections are open; send the request again in 5 s", {"Retry-After": "5"})
    refusal.headers["Connection"] = "close"

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_liveness = scope["type"] == "http" and scope["path"] == _LIVENESS
        await (app if is_liveness else refuse(Request(scope), refusal))(scope, receive, send)

    return answer

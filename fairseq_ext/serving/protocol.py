"""HTTP with slow and idle clients."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from fairseq_ext.serving.refusals import RefusedError, refuse

LIVENESS = "/health/live"


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with time limits, and with a limit of open connections that idle clients cannot exhaust.

    uvicorn itself waits for ever for the head of a request and for a client to read its answer. Its own limit of
    connections answers 503 to everyone, health checks included, while idle clients hold theirs.
    :func:`fairseq_ext.serving.app.read_body` limits the time for a body. Where all connections are busy, one more is
    told to come back, but liveness is answered: a busy service need not be started anew.
    """

    patience = 20.0  # seconds for a request's head, and for each step forward in reading an answer
    most = 512  # open connections; beyond it, the longest idle one is closed, or if none is, a new one gets 503

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
        is_liveness = scope["type"] == "http" and scope["path"] == LIVENESS
        await (app if is_liveness else refuse(Request(scope), refusal))(scope, receive, send)

    return answer

"""The paths of the service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fairseq_ext.inputs.errors import shown
from fairseq_ext.serving.batcher import Batcher, Batching, Outcome
from fairseq_ext.serving.body import Limits, Order, read_order
from fairseq_ext.serving.guard import Guard
from fairseq_ext.serving.metrics import Metrics
from fairseq_ext.serving.refusals import RefusedError, refuse
from fairseq_ext.translators.requests import Answer

if TYPE_CHECKING:
    from fairseq_ext.translators.translator import SystemTranslator

_LOGGER = logging.getLogger("uvicorn.error")
PAGE = Path(__file__).with_name("page")
_GONE = 499  # of a client that did not wait for its answer; nobody reads it


def make_app(
    system: SystemTranslator,
    *,
    limits: Limits,
    batching: Batching,
    local: bool = True,
    token: str | None = None,
) -> Starlette:
    """The service of one system.

    Args:
        system: what translates.
        limits: of one request.
        batching: how requests share batches and wait.
        local: whether only names of this machine are answered.
        token: that clients have to send; None: none.
    """
    service = Service(system, limits, batching)
    return Starlette(
        routes=[
            Route("/", lambda _: FileResponse(PAGE / "index.html")),
            Mount("/page", StaticFiles(directory=PAGE)),
            Route("/translate", service.translate, methods=["POST"]),
            Route("/info", service.info),
            Route("/health/live", service.live),
            Route("/health/ready", service.ready),
            Route("/metrics", service.read_metrics),
        ],
        middleware=[Middleware(Guard, local=local, token=token)],
        exception_handlers={RefusedError: refuse, HTTPException: _explain},
        lifespan=service.lifespan,
    )


class Service:
    """The end points; what they share is the batcher, which lives as long as the server."""

    def __init__(self, system: SystemTranslator, limits: Limits, batching: Batching) -> None:
        self._system = system
        self._limits = limits
        self._metrics = Metrics()
        self._make_batcher = lambda: Batcher(system, batching, self._metrics)
        self._batcher: Batcher | None = None

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        batcher = self._batcher = self._make_batcher()
        yield
        await asyncio.to_thread(batcher.close)

    async def translate(self, request: Request) -> Response:
        """``POST /translate``; counted by its status."""
        with self._metrics.latency.time():
            try:
                response = await self._translate(request)
            except RefusedError as refusal:
                response = refuse(request, refusal)
            except Exception as error:
                _LOGGER.exception("a translation failed")
                text = f"the translation failed ({type(error).__name__}); the service's log says why"
                response = JSONResponse({"error": text}, 500)
        self._metrics.requests.labels(response.status_code).inc()
        return response

    async def _translate(self, request: Request) -> Response:
        assert self._batcher is not None
        try:
            order = read_order(await read_body(request, self._limits), self._system, self._limits)
        except ClientDisconnect:
            return Response(status_code=_GONE)
        future = asyncio.wrap_future(self._batcher.submit(order))
        leaving = asyncio.ensure_future(_wait_until_gone(request))
        both: list[asyncio.Future[Any]] = [future, leaving]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return JSONResponse(self._content(order, future.result())) if future.done() else Response(status_code=_GONE)
        finally:
            for each in both:
                each.cancel()

    def _content(self, order: Order, outcome: Outcome) -> dict[str, Any]:
        domains = self._system.domains
        return {
            "system": self._system.name,
            "translations": [
                _answer(answer, domains)
                | ({"tokens": answer.tokens and answer.tokens.by_domain(domains)} if order.by_token else {})
                for answer in outcome.answers
            ],
            "seconds": {"waited": round(outcome.waited, 4), "total": round(outcome.took, 4)},
        }

    async def info(self, _: Request) -> Response:
        """``GET /info``: what there is to ask for."""
        system, limits = self._system, self._limits
        return JSONResponse(
            {
                "system": system.name,
                "languages": list(system.languages),
                "domains": system.domains,
                "routes": system.routes,
                "default_route": system.default_route,
                "limits": {
                    "bytes": limits.bytes,
                    "texts": limits.texts,
                    "characters": limits.characters,
                    "beam": limits.beam,
                },
            }
        )

    async def live(self, _: Request) -> Response:
        """``GET /health/live``: whether the thread that translates runs."""
        return self._health(self._batcher is not None and self._batcher.is_alive, "live")

    async def ready(self, _: Request) -> Response:
        """``GET /health/ready``: whether a request would be taken."""
        return self._health(self._batcher is not None and self._batcher.has_room, "ready")

    def _health(self, holds: bool, name: str) -> Response:
        return JSONResponse({name: holds}, 200 if holds else 503)

    async def read_metrics(self, _: Request) -> Response:
        """``GET /metrics``: for Prometheus."""
        return Response(self._metrics.text(), media_type=self._metrics.content_type)


async def read_body(request: Request, limits: Limits) -> bytes:
    """All of a body of JSON.

    Raises:
        RefusedError: 415 if it is something else, 413 if it is too large, 408 if it takes too long.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" or request.headers.get("content-encoding", "identity") != "identity":
        raise RefusedError(415, "the body is not plain JSON; send Content-Type: application/json, not compressed")
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limits.bytes:
                    raise RefusedError(413, f"the body is larger than {limits.bytes} bytes; send fewer texts at once")
    except TimeoutError:
        raise RefusedError(
            408, f"the body took longer than {limits.seconds:g} s to arrive", {"Connection": "close"}
        ) from None
    return bytes(body)


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer(answer: Answer, domains: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "text": answer.candidates[0].text,
        "score": round(answer.candidates[0].score, 4),
        "route": answer.route,
        "domain": answer.domain,
        "weights": None,
        "gates": None,
    }
    if len(answer.candidates) > 1:
        found["candidates"] = [{"text": each.text, "score": round(each.score, 4)} for each in answer.candidates]
    if answer.weights is not None:
        found["weights"] = dict(zip(domains, _rounded(answer.weights), strict=True))
    if answer.gates is not None:
        found["gates"] = {
            side: [dict(zip(domains, _rounded(layer), strict=True)) for layer in layers]
            for side, layers in answer.gates.items()
        }
    return found


def _rounded(weights: Sequence[float]) -> list[float]:
    return [round(weight, 4) for weight in weights]


def _explain(request: Request, error: Exception) -> Response:
    """Paths and methods that there are not."""
    assert isinstance(error, HTTPException)
    text = f"{request.method} {shown(request.url.path)}: {error.detail}; there are POST /translate and GET /info"
    return JSONResponse({"error": text}, error.status_code, error.headers)

"""Routes and endpoints of the service."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fairseq_ext.base.errors import InputError, line_of, shown
from fairseq_ext.serve.runtime.requests import Answer
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.serve.server import clients
from fairseq_ext.serve.server.batcher import Batcher, Outcome
from fairseq_ext.serve.server.body import JSON, Order, default_route, domain_in, read_body, read_content, read_order
from fairseq_ext.serve.server.clients import refuse_as_libretranslate
from fairseq_ext.serve.server.files import FILE_STEPS, SUFFIXES, Files, json_lines
from fairseq_ext.serve.server.guard import KEY_CHECK, Guard
from fairseq_ext.serve.server.limits import Limits
from fairseq_ext.serve.server.metrics import Metrics
from fairseq_ext.serve.server.refusals import RefusedError, reason, refuse

PAGE = Path(__file__).with_name("page")
_TOLD_LIMITS = ("bytes", "texts", "characters", "beam", "work")
_T = TypeVar("_T")
_GONE = 499  # client closed the connection; only used in metrics
_GENERAL = "general"  # name of the file of corrections without a domain
_MOST_CORRECTIONS = 64 << 20  # bytes of each such file


def make_app(
    system: SystemTranslator,
    *,
    limits: Limits,
    local: bool = True,
    token: str | None = None,
    load: Callable[[], SystemTranslator] | None = None,
    corrections: Path | None = None,
) -> Starlette:
    """Create the service of one system.

    Args:
        system: translator of the system.
        limits: limits of the service.
        local: whether to answer only requests addressed to this machine's own names.
        token: token that clients have to send; None for no authentication.
        load: function that loads the system again for ``POST /reload``, which requires a token.
        corrections: folder for corrections that clients send; None to refuse them.
    """
    service = Service(system, limits, load if token is not None else None, corrections, needs_key=token is not None)
    tell, health = service.tell, service.health
    paths = [
        Route("/translate", service.translate, methods=["POST"]),
        Route("/translate_file", service.translate_file, methods=["POST"]),
        Route("/suggest", service.suggest, methods=["POST"]),
        Route("/detect", service.detect, methods=["POST"]),
        Route("/languages", tell(lambda _: clients.languages(service.system))),
        # Status of the translation thread.
        Route("/health", health(lambda each: each.is_alive, lambda well: {"status": "ok" if well else "error"})),
        Route("/frontend/settings", tell(service.settings)),
        Route("/spec", tell(lambda _: clients.describe(paths))),
        Route("/MTRestService/TranslateJson", service.translate_for_opus_cat),
        Route("/MTRestService/ListSupportedLanguagePairs", tell(lambda _: ["-".join(service.system.languages)])),
        Route("/MTRestService/GetLanguagePairModelTags", tell(lambda query: clients.model_tags(query, service.system))),
    ]
    return Starlette(
        routes=[
            Route("/", lambda _: FileResponse(PAGE / "index.html")),
            Mount("/page", StaticFiles(directory=PAGE)),
            *paths,
            Mount("/d/{domain}", routes=paths),
            Route("/download_file/{name:path}", service.download),
            Route("/reload", service.reload, methods=["POST"]),
            Route("/info", service.info),
            Route("/health/live", health(lambda each: each.is_alive, lambda well: {"live": well})),
            # Whether a request would be accepted.
            Route("/health/ready", health(lambda each: each.has_room, lambda well: {"ready": well})),
            Route("/metrics", service.read_metrics),
        ],
        middleware=[Middleware(Guard, local=local, token=token)],
        exception_handlers={RefusedError: refuse, HTTPException: _explain},
        lifespan=service.lifespan,
    )


def _counted(
    translate: Callable[[Service, Request], Awaitable[Response]],
) -> Callable[[Service, Request], Awaitable[Response]]:
    """Count and time translation requests. Failures are reported to the client and do not propagate."""

    @functools.wraps(translate)
    async def counted(service: Service, request: Request) -> Response:
        with service.metrics.latency.time():
            try:
                response = await translate(service, request)
            except RefusedError as refusal:
                response = refuse(request, refusal)
            except ClientDisconnect:
                response = Response(status_code=_GONE)
            except Exception as error:
                response = JSONResponse({"error": reason(error)}, 500)
        service.metrics.requests.labels(response.status_code).inc()
        return response

    return counted


class Corrections:
    """A folder of corrections that users send, ``DOMAIN.jsonl``: objects with ``source`` and ``target``.

    Raises:
        InputError: if the folder cannot be created.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--corrections {folder}: cannot be created ({error}); choose another folder") from None
        self._folder, self._lock = folder, threading.Lock()

    def add(self, domain: str | None, source: str, target: str) -> None:
        """Append a correction."""
        line = json.dumps({"source": source, "target": target}, ensure_ascii=False) + "\n"
        path = self._folder / f"{domain or _GENERAL}.jsonl"
        with self._lock, path.open("ab") as file:
            if file.tell() > _MOST_CORRECTIONS:
                raise RefusedError(503, f"{path.name} is full; move it away")
            file.write(line.encode("utf-8"))


class Service:
    """The endpoints. They share one batcher, which lives as long as the server."""

    def __init__(
        self,
        system: SystemTranslator,
        limits: Limits,
        load: Callable[[], SystemTranslator] | None,
        corrections: Path | None,
        *,
        needs_key: bool,
    ) -> None:
        self.system = system
        self._limits, self._load, self._needs_key = limits, load, needs_key
        self._corrections = None if corrections is None else Corrections(corrections)
        self._files = Files()
        self._reader = ThreadPoolExecutor(1, "reading")  # one thread, so that others have a share of the interpreter
        self.metrics = Metrics()
        self._batcher: Batcher | None = None
        self._reloading = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        batcher = self._batcher = Batcher(self.system, self._limits, self.metrics)
        yield
        self._reader.shutdown(wait=False)
        await asyncio.to_thread(batcher.close)

    async def detect(self, request: Request) -> Response:
        """``POST /detect``."""
        with refuse_as_libretranslate():
            content = await self._content_of(request)
            _check_key(request, content)
            return JSONResponse(await self._aside(clients.detect, content, self.system, self._limits))

    def settings(self, _: Mapping[str, str]) -> dict[str, Any]:
        """Return the answer to ``GET /frontend/settings``."""
        return clients.settings(
            self.system, self._limits, needs_key=self._needs_key, takes_corrections=self._corrections is not None
        )

    async def suggest(self, request: Request) -> Response:
        """``POST /suggest``: keep a better translation ``s`` of the text ``q``, for the domain of the path or body."""
        with refuse_as_libretranslate():
            content = await self._content_of(request)
            _check_key(request, content)
            if self._corrections is None:
                raise RefusedError(403, "Suggestions are disabled on this server; start it with --corrections FOLDER")
            texts = clients.read_suggestion(content, self.system, self._limits)
            domain = domain_in(content, "domain", self.system) or self._domain_of(request)
            await asyncio.to_thread(self._corrections.add, domain, *texts)
        return JSONResponse({"success": True})

    @_counted
    async def translate_file(self, request: Request) -> Response:
        """``POST /translate_file``: translate a file. ``Accept: application/x-ndjson`` asks for progress lines."""
        with refuse_as_libretranslate():
            content = await self._content_of(request, self._limits.max_file_bytes)
            upload = clients.read_file(content, self.system)
            domain = domain_in(content, "domain", self.system) or self._domain_of(request)
            route = domain or default_route(self.system, "file")
            assert self._batcher is not None
            steps = self._files.translate(upload, route, self.system, self._batcher.submit, str(request.base_url))
            if FILE_STEPS in request.headers.get("accept", ""):
                return StreamingResponse(json_lines(steps), media_type=FILE_STEPS)
            return JSONResponse([step async for step in steps][-1])

    async def download(self, request: Request) -> Response:
        """``GET /download_file/KEY/NAME``: a translated file."""
        found = self._files.get(request.path_params["name"].partition("/")[0])
        if found is None:
            raise RefusedError(400, "Invalid filename; the file was never here, or not fetched in time")
        headers = {"Content-Disposition": f'attachment; filename="{found.name}"'}
        return Response(found.data, media_type="application/octet-stream", headers=headers)

    def tell(self, content: Callable[[Mapping[str, str]], Any]) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that computes its answer from the query parameters."""

        async def answer(request: Request) -> Response:
            with refuse_as_libretranslate():
                return JSONResponse(content(request.query_params))

        return answer

    @_counted
    async def translate(self, request: Request) -> Response:
        """``POST /translate``, in this project's format, or in LibreTranslate's if the body has ``q``."""
        content = await self._content_of(request)
        is_own = isinstance(content, dict) and "texts" in content
        with contextlib.nullcontext() if is_own else refuse_as_libretranslate():
            _check_key(request, content)
            read, domain = _read_own if is_own else clients.read_libretranslate, self._domain_of(request)
            return await self._answer(request, *await self._aside(read, content, self.system, self._limits, domain))

    @_counted
    async def translate_for_opus_cat(self, request: Request) -> Response:
        """``GET /MTRestService/TranslateJson``."""
        with refuse_as_libretranslate():
            query, domain = request.query_params, self._domain_of(request)
            return await self._answer(request, *clients.read_opus_cat(query, self.system, self._limits, domain))

    async def _content_of(self, request: Request, most: int | None = None) -> Any:
        """Return the content of JSON, or that of a form and the query.

        Args:
            most: maximum size in bytes (default: that of the limits).
        """
        data, kind = await read_body(request, self._limits, most or self._limits.max_bytes)
        content = await self._aside(read_content, data, self._limits, kind) if data or kind == JSON else {}
        return content if kind == JSON else {**request.query_params, **content}

    async def _aside(self, read: Callable[..., _T], *given: Any) -> _T:
        """Call a function in the thread that reads requests, so that health is answered meanwhile."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, read, *given)

    def _domain_of(self, request: Request) -> str | None:
        """Return the domain of a path ``/d/DOMAIN/…``, or None."""
        return domain_in(request.path_params, "domain", self.system)

    async def _answer(self, request: Request, order: Order, write: clients.Write) -> Response:
        """Translate an order, unless its client disconnects."""
        if not order.requests:
            return JSONResponse(write(Outcome([], 0.0, 0.0)))
        assert self._batcher is not None
        future = asyncio.wrap_future(await self._aside(self._batcher.submit, order))
        leaving = asyncio.ensure_future(_wait_until_gone(request))
        both: list[asyncio.Future[Any]] = [future, leaving]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                return Response(status_code=_GONE)
            return await self._aside(lambda: JSONResponse(write(future.result())))
        finally:
            for each in both:
                each.cancel()

    async def reload(self, request: Request) -> Response:
        """``POST /reload``: load the system again. Orders accepted before are still translated by the old one."""
        if self._load is None:
            raise RefusedError(403, "a service without a token cannot reload; start it with --token-file")
        async with self._reloading:
            try:
                system = await asyncio.to_thread(self._load)
            except InputError as error:
                raise RefusedError(422, f"the old system stays loaded: {line_of(error)}") from None
            self.system = system
            if self._batcher is not None:
                self._batcher.system = system
        return await self.info(request)

    async def info(self, _: Request) -> Response:
        """``GET /info``: languages, domains, routes, limits and the base's origin."""
        system, limits = self.system, self._limits
        return JSONResponse(
            {
                "system": system.name,
                "languages": list(system.languages),
                "domains": system.domains,
                "routes": system.routes,
                "default_route": system.default_route,
                "corrections": self._corrections is not None,
                "files": list(SUFFIXES),
                "base": system.base,
                "limits": {key: getattr(limits, f"max_{key}") for key in _TOLD_LIMITS},
            }
        )

    def health(
        self, is_well: Callable[[Batcher], bool], write: Callable[[bool], Any]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that answers with status 200 if the batcher is well, otherwise 503."""

        async def answer(_: Request) -> Response:
            found = self._batcher is not None and is_well(self._batcher)
            return JSONResponse(write(found), 200 if found else 503)

        return answer

    async def read_metrics(self, _: Request) -> Response:
        """``GET /metrics``: metrics for Prometheus."""
        return Response(self.metrics.text(), media_type=self.metrics.content_type)


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _check_key(request: Request, content: Any) -> None:
    """Check the token in the body if the headers have none."""
    check = request.scope.get(KEY_CHECK)
    if check is not None:
        check(content.get("api_key") if isinstance(content, dict) else None)


def _read_own(
    content: Any, system: SystemTranslator, limits: Limits, domain: str | None
) -> tuple[Order, clients.Write]:
    """Read the body of ``POST /translate`` in this project's format, as :func:`clients.read_libretranslate` does."""
    order = read_order(content, system, limits, domain)

    def write(outcome: Outcome) -> dict[str, Any]:
        return {
            "system": system.name,
            "translations": [_answer(answer, system.domains, order.gates) for answer in outcome.answers],
            "seconds": {"waited": round(outcome.waited, 4), "total": round(outcome.took, 4)},
        }

    return order, write


def _answer(answer: Answer, domains: list[str], gates: str | None) -> dict[str, Any]:
    record = answer.record()
    record.update(record["candidates"][0])
    if len(answer.candidates) == 1:
        del record["candidates"]
    return record if gates is None else record | answer.gate_record(domains, gates)


def _explain(request: Request, error: Exception) -> Response:
    """Answer requests for unknown paths and methods."""
    assert isinstance(error, HTTPException)
    text = f"{request.method} {shown(request.url.path)}: {error.detail}; use POST /translate or GET /info"
    return JSONResponse({"error": text}, error.status_code, error.headers)

"""What a client is told where its request is not served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

# LibreTranslate's clients know these statuses alone.
_LIBRETRANSLATE = {401: 403, 413: 400, 415: 400, 422: 400, 503: 429}


class RefusedError(Exception):
    """A request that is not served.

    Args:
        status: of HTTP, 4xx or 503.
        message: what is wrong and how to mend it, one line.
        headers: of the response, e.g. ``Retry-After``.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


def refuse(_: Request, refusal: Exception) -> Response:
    """The response to a request that is not served."""
    assert isinstance(refusal, RefusedError)
    return JSONResponse({"error": str(refusal)}, refusal.status, refusal.headers)


@contextmanager
def refuse_as_libretranslate() -> Iterator[None]:
    """Refuse with the statuses that the clients of others know."""
    try:
        yield
    except RefusedError as refusal:
        refusal.status = _LIBRETRANSLATE.get(refusal.status, refusal.status)
        raise

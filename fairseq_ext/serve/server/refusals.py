"""Error responses for refused requests."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

_LOGGER = logging.getLogger("uvicorn.error")


class RefusedError(Exception):
    """Error for a request that is refused.

    Args:
        status: HTTP status, 4xx or 503.
        message: one line that says what is wrong and how to fix it.
        headers: response headers, e.g. ``Retry-After``.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


def reason(error: Exception) -> str:
    """Return what to tell a client of an error; unexpected ones are logged."""
    if isinstance(error, RefusedError):
        return str(error)
    _LOGGER.error("a translation failed", exc_info=error)
    return f"the translation failed ({type(error).__name__}); see the log of the service"


def refuse(_: Request, refusal: Exception) -> Response:
    """Return the response to a refused request."""
    assert isinstance(refusal, RefusedError)
    return JSONResponse({"error": str(refusal)}, refusal.status, refusal.headers)

"""Error responses for refused requests."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response


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


def refuse(_: Request, refusal: Exception) -> Response:
    """Return the response to a refused request."""
    assert isinstance(refusal, RefusedError)
    return JSONResponse({"error": str(refusal)}, refusal.status, refusal.headers)

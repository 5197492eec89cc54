"""What a client is told where its request is not served."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response


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

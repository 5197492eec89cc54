"""Access control: host names, token authentication, and security headers for browsers."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairseq_ext.base.errors import InputError, shown
from fairseq_ext.serve.server.refusals import RefusedError, refuse

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS = {
    "Content-Security-Policy": _CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# Paths open to everyone: health, languages, translated files by a secret key, and the page, which asks for the token.
_OPEN = re.compile(
    r"/|/health/(live|ready)|/page/[\w.]+|(/d/[^/]+)?/(health|languages|spec|frontend/settings)"
    r"|/download_file/[\w-]{16,}/[^/]+"
)
# Paths whose body may contain the token, which the endpoint then checks.
_IN_BODY = re.compile(r"(/d/[^/]+)?/(translate|detect|suggest)")
KEY_CHECK = "fairseq_ext.check_api_key"  # key in the scope of such a request: function that checks the token
_SLASHES = re.compile("/{2,}")  # of clients that append a path to an address with a slash
_TOKEN = re.compile(r"[!-~]{16,}")


def is_loop_back(host: str) -> bool:
    """Return whether a host to listen on can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path) -> str:
    """Read the token from a file of one line."""
    try:
        with path.open(encoding="ascii") as file:
            token = file.read(4096).strip()
    except (OSError, ValueError) as error:
        raise InputError(f"--token-file {path}: cannot be read ({error}); give a file of one line") from None
    if not _TOKEN.fullmatch(token):
        raise InputError(
            f"--token-file {path}: contains no valid token; write one line of at least 16 letters and digits"
        )
    return token


class Guard:
    """ASGI middleware that refuses requests with a foreign ``Host`` or without the token, and adds security headers.

    Another site can make its name resolve to this machine (DNS rebinding), so that a browser treats both as one site.
    The browser still sends that name as ``Host``. A ``local`` service therefore only answers to this machine's names.
    """

    def __init__(self, app: ASGIApp, *, local: bool, token: str | None) -> None:
        self._app = app
        self._local = local
        self._token = None if token is None else _digest(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        scope["path"] = _SLASHES.sub("/", scope["path"])
        try:
            self._check(scope, Headers(scope=scope))
        except RefusedError as refusal:
            await refuse(Request(scope), refusal)(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        host, path = headers.get("host", ""), scope["path"]
        if self._local and not is_loop_back(_name_of(host.lower())):
            raise RefusedError(421, f"the host name {shown(host)} is not allowed; use 127.0.0.1 or localhost")
        if _OPEN.fullmatch(path):
            return
        site = headers.get("sec-fetch-site")
        if site == "cross-site" or (self._token is None and _is_from_another_page(site, headers)):
            raise RefusedError(403, "requests from pages of other sites or ports are not allowed")
        if self._token is None:
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":  # of a proxy
            token = ""
        elif token and scheme.lower() != "bearer":
            self._check_key("")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        token = token or query.get("tokenCode") or query.get("api_key", "")
        if not token and _IN_BODY.fullmatch(path):
            scope[KEY_CHECK] = self._check_key
        else:
            self._check_key(token)

    def _check_key(self, token: Any) -> None:
        """Check a token from the headers, the query or the body."""
        if not isinstance(token, str) or not hmac.compare_digest(_digest(token.strip()), self._token or b""):
            raise RefusedError(
                401,
                "the token is missing or wrong; send Authorization: Bearer TOKEN, api_key or tokenCode",
                {"WWW-Authenticate": "Bearer"},
            )


def _is_from_another_page(site: str | None, headers: Mapping[str, str]) -> bool:
    """Return whether a page of another site or port sends a request. Old browsers only send its ``Origin``."""
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host", "")


def _name_of(host: str) -> str:
    """Return the host name without the port: ``localhost`` for ``localhost:8000``, ``::1`` for ``[::1]:8000``."""
    match = re.fullmatch(r"(?:\[([^\]]*)\]|([^:]*))(?::\d+)?", host)
    return (match[1] or match[2] or "") if match else ""


def _digest(token: str) -> bytes:
    """Hash a token, so that the time of comparisons does not depend on its length."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()

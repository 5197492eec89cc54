"""Serving an exported system until a signal."""

from __future__ import annotations

import signal
import socket
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.translator import SystemTranslator
from fairseq_ext.serving.app import make_app
from fairseq_ext.serving.guard import is_loop_back, read_token
from fairseq_ext.serving.limits import Limits


def serve(
    exported: Path,
    limits: Limits,
    *,
    host: str,
    port: int,
    token_file: Path | None = None,
    **options: Any,
) -> None:
    """Serve an exported system until SIGTERM or Ctrl-C; then finish what was accepted.

    Args:
        exported: directory of the system.
        limits: what the service takes on.
        host: any but this machine's own needs ``token_file``, which holds what clients must send.
        port: 0 for any that is free.
        token_file: see ``host``.
        options: of :meth:`SystemTranslator.load`.
    """
    local = is_loop_back(host)
    if not local and token_file is None:
        raise InputError(f"--host {host}: others could use the service; give --token-file FILE too")
    token = None if token_file is None else read_token(token_file)
    listener = listen(host, port)
    load = partial(SystemTranslator.load, exported, **options)
    system = load()
    app = make_app(system, limits=limits, local=local, token=token, load=load)
    server = make_server(app, limits)
    # uvicorn stops at these signals, and raises them once more when it has: here that must not end the program.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    listener.listen()
    host, port = listener.getsockname()[:2]
    print(f"{system.name} at http://{f'[{host}]' if ':' in host else host}:{port}/ (Ctrl-C stops)", flush=True)
    server.run([listener])


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound already, so that an address in use is known before the system is read."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, OverflowError) as error:
        raise InputError(f"--host {host} --port {port}: cannot listen there ({error}); give others") from None
    return listener


def make_server(app: Any, limits: Limits) -> Any:
    """uvicorn's server, quiet, with limits of time and connections."""
    import uvicorn

    from fairseq_ext.serving.protocol import PatientProtocol

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

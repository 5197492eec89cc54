"""Serving an exported system until a signal."""

from __future__ import annotations

import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.manifest import FLOAT32
from fairseq_ext.runtime.translator import SystemTranslator
from fairseq_ext.serving.app import make_app
from fairseq_ext.serving.batcher import Batching
from fairseq_ext.serving.body import Limits
from fairseq_ext.serving.guard import is_loop_back, read_token


@dataclass(frozen=True)
class Service:
    """How a system is served.

    Attributes:
        host: address to listen on; any but this machine's own needs ``token_file``.
        port: 0 for any that is free.
        token_file: file with the token that clients must send.
        terms: file of terms that all translations keep.
        device: cpu or cuda.
        decoding_precision: of weights and products.
        threads: cores that the model uses.
        connections: the most open ones; beyond it, the longest idle one is closed.
        limits: of a request.
        batching: how texts become batches.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token_file: Path | None = None
    terms: Path | None = None
    device: str = "cpu"
    decoding_precision: str = FLOAT32
    threads: int = 1
    connections: int = 512
    limits: Limits = field(default_factory=Limits)
    batching: Batching = field(default_factory=Batching)


def serve(exported: Path, service: Service) -> None:
    """Serve an exported system until SIGTERM or Ctrl-C; then finish what was accepted.

    Raises:
        InputError: if the address or the token cannot be used, or the system cannot be read.
    """
    local = is_loop_back(service.host)
    if not local and service.token_file is None:
        raise InputError(f"--host {service.host}: others could use the service; give --token-file FILE too")
    token = None if service.token_file is None else read_token(service.token_file)
    listener = listen(service.host, service.port)

    def load() -> SystemTranslator:
        return SystemTranslator.load(
            exported.resolve(),  # all files of one export, though a link may point to another one any time
            device=service.device,
            decoding_precision=service.decoding_precision,
            threads=service.threads,
            terms=service.terms,
        )

    system = load()
    app = make_app(system, limits=service.limits, batching=service.batching, local=local, token=token, load=load)
    server = make_server(app, patience=service.limits.seconds, connections=service.connections)
    # uvicorn stops at these signals, and raises them once more when it has: here that must not end the program.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    listener.listen()
    host, port = listener.getsockname()[:2]
    print(f"{system.name} at http://{f'[{host}]' if ':' in host else host}:{port}/ (Ctrl-C stops)", flush=True)
    server.run([listener])


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound already, so that an address in use is known before the system is read.

    Raises:
        InputError: naming the options.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, OverflowError) as error:
        raise InputError(f"--host {host} --port {port}: cannot listen there ({error}); give others") from None
    return listener


def make_server(app: Any, *, patience: float, connections: int) -> Any:
    """uvicorn's server, quiet, and patient with clients for so many seconds.

    Args:
        app: what answers.
        patience: seconds for a client to send the head of its request, and to read on in its answer.
        connections: the most open ones; beyond it, the longest idle one is closed.
    """
    import uvicorn

    from fairseq_ext.serving.protocol import PatientProtocol

    config = uvicorn.Config(
        app,
        http=type("Protocol", (PatientProtocol,), {"patience": patience, "most": connections}),
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
    )
    return uvicorn.Server(config)

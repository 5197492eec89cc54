"""Command line of ``fairseq-ext serve``."""

from __future__ import annotations

import argparse
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.inputs.errors import InputError, run_command
from fairseq_ext.translators.answers import PRECISIONS


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve an exported system until SIGTERM or Ctrl-C."""
    options = _parser().parse_args(arguments)
    from fairseq_ext.serving.guard import is_loop_back, read_token

    local = is_loop_back(options.host)
    if not local and options.token_file is None:
        raise InputError(f"--host {options.host}: others could use the service; give --token-file FILE too")
    token = None if options.token_file is None else read_token(options.token_file)
    listener = listen(options.host, options.port)
    serve(options, listener, local=local, token=token)


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


def serve(options: argparse.Namespace, listener: socket.socket, *, local: bool, token: str | None) -> None:
    """Read the system and answer requests until a signal; then finish what was accepted."""
    from fairseq_ext.serving.app import make_app
    from fairseq_ext.serving.batcher import Batching
    from fairseq_ext.serving.body import Limits
    from fairseq_ext.translators.answers import load_quietly

    system = load_quietly(options.exported, options.device, options.decoding_precision)
    if options.threads > 1:
        import torch

        torch.set_num_threads(options.threads)
    limits = Limits(
        bytes=options.max_bytes,
        texts=options.max_texts,
        characters=options.max_characters,
        beam=options.max_beam,
        seconds=options.patience,
    )
    batching = Batching(queue=options.queue, tokens=options.max_tokens, window=options.window / 1000)
    app = make_app(system, limits=limits, batching=batching, local=local, token=token)
    server = make_server(app, patience=options.patience, connections=options.connections)
    # uvicorn stops at these signals, and raises them once more when it has: here that must not end the program.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    listener.listen()
    host, port = listener.getsockname()[:2]
    print(f"{system.name} at http://{f'[{host}]' if ':' in host else host}:{port}/ (Ctrl-C stops)", flush=True)
    server.run([listener])


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="serve.sh", description="Serve an exported system: a page at /, JSON at /translate (docs/using.md)."
    )
    parser.add_argument("exported", type=Path, metavar="EXPORTED", help="directory that fairseq-ext export made")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; any but this machine's own needs --token-file"
    )
    parser.add_argument("--port", type=_number(0, 65_535), default=8000, help="port; 0: any that is free")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="file with the token that clients must send")
    parser.add_argument("--device", default="cpu", help="where the model runs, e.g. cuda")
    parser.add_argument(
        "--decoding-precision",
        choices=PRECISIONS,
        default=PRECISIONS[0],
        help="of weights and products; bfloat16 pays for large models, int8 is for a CPU",
    )
    parser.add_argument("--threads", type=_number(1), default=1, help="cores that the model uses")
    _add_limits(parser)
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    return parser


def _add_limits(parser: argparse.ArgumentParser) -> None:
    for option, default, text in (
        ("queue", 1024, "texts that may wait; beyond it clients are told to come back (503)"),
        ("max-tokens", 256, "source tokens of a batch; more pay on a GPU"),
        ("window", 10, "milliseconds that the first text of a batch waits for others"),
        ("connections", 512, "open connections; beyond it, the one that has been idle for longest is closed"),
        ("max-bytes", 1 << 20, "of a request"),
        ("max-texts", 256, "of a request"),
        ("max-characters", 20_000, "of all texts of a request"),
        ("max-beam", 16, "that a request may ask for"),
        ("patience", 20, "seconds for a client to send its request, and to read on in its answer"),
    ):
        parser.add_argument(f"--{option}", type=_number(0 if option == "window" else 1), default=default, help=text)


def _number(least: int, most: int | None = None) -> Any:
    def number(text: str) -> int:
        value = int(text)
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"{value}: give {least} {'or more' if most is None else f'to {most}'}")
        return value

    return number


if __name__ == "__main__":
    run_command(main)

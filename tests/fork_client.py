"""What commands of tests are started by: ``fork_client.py SERVER PYTHON ARGUMENTS…`` (see ``fork_server.py``)."""

import array
import contextlib
import json
import os
import signal
import socket
import sys
from typing import Any

FORKED = {"-m": ("fairseq_cli.", "fairseq_ext."), "-c": ("import fairseq",)}
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def request_for(arguments: list[str]) -> dict[str, Any] | None:
    """What the server is to run; None if it is nothing for the server."""
    safe_path = arguments[:1] == ["-P"]
    rest = arguments[safe_path:]
    if len(rest) < 2 or not rest[1].startswith(FORKED.get(rest[0], ())):
        return None
    os.umask(umask := os.umask(0))
    return {
        "option": rest[0],
        "program": rest[1],
        "arguments": rest[2:],
        "safe_path": safe_path,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "umask": umask,
        "ignored": [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_IGN],
    }


def run(server: socket.socket, request: dict[str, Any]) -> int:
    """Send the request with this process's streams, pass on what signals come, and return the status."""

    def pass_on(number: int, _: Any) -> None:
        with contextlib.suppress(OSError):  # the command has ended
            server.send(bytes([number]))

    for number in set(SIGNALS) - set(request["ignored"]):
        signal.signal(number, pass_on)
    streams = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
    data = json.dumps(request).encode() + b"\n"
    server.sendall(data[server.sendmsg([data], streams) :])
    return int(server.recv(16) or 70)


def end(status: int) -> None:
    """As the command ended: by a signal if that is below 0."""
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if status != -signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    os._exit(status)


def main() -> None:
    address, python, *arguments = sys.argv[1:]
    request = request_for(arguments)
    if request is None:
        os.execv(python, [python, *arguments])
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        end(run(server, request))


if __name__ == "__main__":
    main()

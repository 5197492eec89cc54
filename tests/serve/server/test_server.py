"""The command: what it refuses, and how it stops."""

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.server.server import listen
from tests.serve.server.fake_server import TIMEOUT, Served, answer_of, head
from tests.verbs import verb

ROOT = Path(__file__).resolve().parents[3]


def test_other_machines_need_a_token_and_an_address_in_use_is_named() -> None:
    with pytest.raises(InputError, match=r"--host 0\.0\.0\.0: .* --token-file"):
        verb("serve")(["there", "--host", "0.0.0.0"])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"--host 127\.0\.0\.1 --port {port}: cannot listen there"):
            listen("127.0.0.1", port).listen()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_was_accepted_finish(number: signal.Signals, true_processes: None) -> None:
    command = [sys.executable, "-m", "tests.serve.server.fake_system"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        watchdog = threading.Timer(TIMEOUT, process.kill)
        watchdog.start()
        service = Served(None, int(process.stdout.readline().split(":")[2].split("/")[0]))  # type: ignore[arg-type]
        accepted = [service.post("wait")]
        assert process.stdout.readline() == "a text waits\n"
        accepted += [service.post("a b"), service.post("c d", beam=2)]
        while service.metric("translation_queue_sentences") < 2:
            pass
        late = service.connect()
        late.sendall(head(b"", length=18) + b'{"texts": ')  # half a request
        service.metric("any")  # by whose answer it is read
        process.send_signal(number)
        while refuses(service.port) is None:
            pass
        late.sendall(b'["e f"]}')
        process.stdin.write("go\n")
        process.stdin.flush()
        found = [answer_of(client) for client in (*accepted, late)]
        assert [status for status, _ in found] == [200] * 4
        assert [content["translations"][0]["text"] for _, content in found] == ["wait", "b a", "d c", "f e"]
        process.stdin.close()
        assert process.wait(TIMEOUT) == 0
        assert process.stderr.read() == ""
        watchdog.cancel()


def refuses(port: int) -> bool | None:
    """True once nothing listens there; None while something does."""
    try:
        socket.create_connection(("127.0.0.1", port), TIMEOUT).close()
    except ConnectionError:  # refused, or reset as it stopped to listen
        return True
    return None

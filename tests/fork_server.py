"""Commands that tests start, forked from a process that has imported fairseq already.

``python -m fairseq_cli.train`` takes seconds to import what it needs, and the tests start hundreds of such commands.
Within ``preloaded_commands``, ``sys.executable`` is a program that hands modules of fairseq's and of this project, and
lines that begin with ``import fairseq``, to a server, with its streams, folder and environment, and waits for them; it
leaves all else to Python itself. To whoever started it, it is the command: signals reach the command, its status is the
command's, and no command outlives it.

Run as a program, this is the server. It imports, forks and nothing more, since a process with threads cannot fork.
It has loaded this project after fairseq, as ``--user-dir`` does; what depends on the order takes ``true_processes``.
"""

import array
import atexit
import contextlib
import functools
import gc
import importlib
import json
import logging
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

PYTHON = sys.executable  # the true one, for commands that are killed or must be processes of their own from the start
CLIENT = Path(__file__).with_name("fork_client.py")
TOOLS = ("eval_lm", "generate", "hydra_train", "interactive", "preprocess", "train", "validate")
LONGEST_REQUEST = 1 << 20


@contextlib.contextmanager
def preloaded_commands(folder: Path) -> Iterator[None]:
    """Let ``sys.executable`` fork commands; the server imports fairseq when the first of them comes."""
    address, program = f"{folder}/commands", folder / "python"
    words = [PYTHON, "-I", "-S", str(CLIENT), address, PYTHON]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener, (folder / "server.log").open("w") as log:
        listener.bind(address)
        listener.listen(64)
        command = [PYTHON, "-I", __file__, str(listener.fileno()), str(program)]
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[listener.fileno()], start_new_session=True
        )
    sys.executable = str(program)
    try:
        yield
    finally:
        sys.executable = PYTHON
        server.kill()
        server.communicate()


class Server:
    """Forks a process for every connection, and tells it when that has ended, and how."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._request: dict[str, Any] | None = None
        self._watch(listener, self._fork)
        self._watch(sys.stdin, sys.exit)  # which closes when the tests end, however they end

    def next_request(self) -> dict[str, Any]:
        """What to run; returns in the forked processes only."""
        while self._request is None:
            for key, _ in self._selector.select():
                if self._request is None and self._selector.get_map().get(key.fd) == key:  # or it is gone
                    key.data()
        return self._request

    def _watch(self, file: Any, action: Callable[[], Any]) -> None:
        self._selector.register(file, selectors.EVENT_READ, action)

    def _fork(self) -> None:
        connection, _ = self._listener.accept()
        try:
            request, streams = receive(connection)
        except ConnectionError:  # killed before it had said what to run
            connection.close()
            return
        preload()
        process = os.fork()
        if process == 0:
            connection.detach()
            self._leave(request, streams)
        else:
            self._follow(connection, process)
            for stream in streams:
                os.close(stream)

    def _leave(self, request: dict[str, Any], streams: list[int]) -> None:
        """In the forked process: take the client's streams, and keep nothing else open."""
        self._selector.close()
        self._listener.detach()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        # The server's was a file, in which one can seek; the client's may be a pipe.
        sys.stdout = os.fdopen(1, "w", closefd=False)
        self._request = request

    def _follow(self, connection: socket.socket, process: int) -> None:
        ended = os.pidfd_open(process)
        self._watch(connection, lambda: self._pass_signals(connection, process))
        self._watch(ended, lambda: self._tell_status(connection, process, ended))

    def _pass_signals(self, connection: socket.socket, process: int) -> None:
        """What the client was sent; if it is killed itself, so is the command."""
        try:
            numbers = connection.recv(16)
        except ConnectionError:
            numbers = b""
        for number in numbers or [signal.SIGKILL]:
            os.kill(process, number)
        if not numbers:
            self._selector.unregister(connection)

    def _tell_status(self, connection: socket.socket, process: int, ended: int) -> None:
        _, status = os.waitpid(process, 0)
        self._selector.unregister(ended)
        os.close(ended)
        if connection in self._selector.get_map():
            self._selector.unregister(connection)
        with contextlib.suppress(OSError):
            connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
        connection.close()


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A request, a line of JSON, and the three streams that come with its first byte."""
    streams = array.array("i")
    data, ancillary, _, _ = connection.recvmsg(LONGEST_REQUEST, socket.CMSG_SPACE(3 * streams.itemsize))
    for _, _, content in ancillary:
        streams.frombytes(content)
    while not data.endswith(b"\n"):
        more = connection.recv(LONGEST_REQUEST)
        if not more:
            raise ConnectionResetError
        data += more
    return json.loads(data), streams.tolist()


@functools.cache
def preload() -> None:
    """Once, import what the command lines import, and leave no trace of the command lines themselves.

    torch's first optimiser imports a compiler, which takes as long as a tiny training.
    """
    importlib.import_module("torch._dynamo")
    importlib.import_module("fairseq.tasks")  # which says something, and so lets messages go to stderr
    for tool in TOOLS:
        importlib.import_module(f"fairseq_cli.{tool}")
    quicken_hydra()
    preload_project()
    for name in [name for name in sys.modules if name.partition(".")[0] == "fairseq_cli"]:
        del sys.modules[name]
    gc.collect()
    gc.freeze()


def preload_project() -> None:
    """Import what the verbs import, and let Hydra parse the values that fairseq's options have by default."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    importlib.import_module("fairseq_ext").install()
    registry = importlib.import_module("fairseq_ext.experiments.registry")
    for name in registry.recipe_names():
        registry.load_recipe(name)
    for name in ("cli.main", "base.executors"):  # not the runtime: ONNX Runtime starts a thread
        importlib.import_module(f"fairseq_ext.{name}")
    del sys.path[0]
    options = importlib.import_module("fairseq.options")
    configuration = importlib.import_module("fairseq.dataclass.utils")
    line = ["data", "--task", "multi_domain_translation"]
    architecture = ["--arch", "transformer_gated_adapter_tiny", "--optimizer", "adam"]
    for parser, words in ((options.get_training_parser(), architecture), (options.get_generation_parser(), [])):
        configuration.convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, [*line, *words]))


def quicken_hydra() -> None:
    """Let Hydra, which composes fairseq's options, parse a value once, and copy only what it takes from its store."""
    store = importlib.import_module("hydra.core.config_store").ConfigStore
    parser = importlib.import_module("hydra.core.override_parser.overrides_parser").OverridesParser
    parse, parsed = parser.parse_rule, {}

    def parse_once(self: Any, text: str, rule: str) -> Any:
        if (text, rule) not in parsed:
            parsed[text, rule] = parse(self, text, rule)
        return parsed[text, rule]

    parser.parse_rule = parse_once
    store.__deepcopy__ = lambda self, memo: self


def become(request: dict[str, Any], program: str) -> None:
    """Run a module as ``python -m`` does, or a line as ``python -c``."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    os.umask(request["umask"])
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    for option in filter(None, os.environ.get("PYTHONWARNINGS", "").split(",")):
        warnings.simplefilter(option)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    is_module = request["option"] == "-m"
    # As this project does when it is loaded, verbs take no library from the current directory.
    is_verb = is_module and request["program"].startswith("fairseq_ext.")
    current = [] if request["safe_path"] or is_verb else [os.getcwd() if is_module else ""]
    sys.path[:0] = [*current, *paths]
    sys.argv[:] = [request["option"], *request["arguments"]]
    sys.executable = program
    # As in the tests themselves: no processes unless the command says how many.
    os.sched_getaffinity = lambda _: {0}
    importlib.import_module("numpy").random.seed()
    # Which says where messages go before it imports fairseq.
    if "fairseq_cli.train" in request["program"] or request["arguments"][:1] == ["train"]:
        logging.root.handlers.clear()
        logging.root.setLevel(logging.WARNING)
    sys.modules["__main__"] = types.ModuleType("__main__")
    run = runpy._run_module_as_main if is_module else run_line
    end(status_of(functools.partial(run, request["program"])))


def run_line(line: str) -> None:
    exec(compile(line, "<string>", "exec"), vars(sys.modules["__main__"]))


def status_of(run: Callable[[], Any]) -> int:
    """The exit status of a program, after its last words on stderr."""
    try:
        run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def end(status: int) -> NoReturn:
    """End as Python does, but leave the memory to the system: to free all modules takes as long as to load a few."""
    threading._shutdown()
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):  # whoever read it has gone
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def main() -> None:
    """Serve until stdin ends."""
    listener, program = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
    become(Server(listener).next_request(), program)


if __name__ == "__main__":
    main()

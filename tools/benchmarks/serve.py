"""Load-test a served system: equality with offline translation, speed, and the effect of disconnecting clients.

`equal` starts fairseq-ext serve, sends the lines of FILE from N parallel clients, with each route in turn, and compares
the answers with offline translation in a single call. Then fairseq-interactive translates them with the default route
on the same cores. `load` sends lines for some minutes while a client is killed every second, monitors the memory, and
stops the service under load. `hostile` sends one request of each hostile kind beside small ones.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import resource
import signal
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.shared import hostile

ROOT = Path(__file__).resolve().parents[2]

# A client to be killed: it sends a request with several texts and waits.
_VICTIM = """
import socket, sys
port, body = int(sys.argv[1]), sys.argv[2].encode()
client = socket.create_connection(("127.0.0.1", port))
head = "POST /translate HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n"
client.sendall(head.encode() + b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
print("sent", flush=True)
client.recv(1)
"""


@dataclass
class Tally:
    """Statistics of the clients: statuses, seconds per answered request, answers by text and route."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    wrong: int = 0

    def figures(self, wall: float) -> dict[str, Any]:
        ranks = statistics.quantiles(self.seconds, n=100) if len(self.seconds) > 1 else [0.0] * 99
        return {
            "requests": sum(self.statuses.values()),
            "statuses": dict(self.statuses),
            "wrong": self.wrong,
            "sentences_per_second": round(self.statuses["200"] / wall, 2),
            "p50_ms": round(1000 * ranks[49]),
            "p99_ms": round(1000 * ranks[98]),
        }


class Server:
    """The service in a separate process, on a free port."""

    def __init__(self, options: Namespace) -> None:
        command = [sys.executable, "-m", "fairseq_ext.cli", "serve", str(options.exported), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--threads", str(options.threads)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        found = re.search(r":(\d+)/ ", self.process.stdout.readline())
        if found is None:
            raise SystemExit("the service did not start; see above")
        self.port = int(found[1])

    def rss(self) -> float:
        """Return resident memory in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)

    def cpu(self) -> float:
        """Return the CPU time of its threads in seconds."""
        times = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, content: Any) -> tuple[str, Any]:
    """One request on a connection that is kept; status and answer."""
    body = json.dumps(content).encode()
    head = (
        f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    writer.write(f"{head}\r\n\r\n".encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)[1])  # type: ignore[index]
    return answer.split()[1].decode(), json.loads(await reader.readexactly(length))


async def client(port: int, work: Any, tally: Tally, expected: dict[tuple[str, str], str] | None = None) -> None:
    """Send one text after the other, until there are no more or the service is gone."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    except OSError:
        tally.statuses["refused"] += 1
        return
    for text, route in work:
        await asyncio.sleep(0)
        if reader.at_eof():  # the service stops after answering all accepted requests
            break
        start = time.perf_counter()
        try:
            status, content = await ask(reader, writer, {"texts": [text], "route": route})
        except (OSError, asyncio.IncompleteReadError):
            tally.statuses["closed"] += 1
            break
        tally.statuses[status] += 1
        if status == "200":
            tally.seconds.append(time.perf_counter() - start)
            [tally.answers[text, route]] = content["translations"]
            tally.wrong += expected is not None and expected[text, route] != content["translations"][0]["text"]
    writer.close()


def offline(options: Namespace, work: Sequence[tuple[str, str]]) -> tuple[dict[tuple[str, str], Any], float]:
    """Return the answers of a single offline call, and sentences per second of computing time."""
    from fairseq_ext.serve.runtime.requests import Request
    from fairseq_ext.serve.runtime.translator import SystemTranslator

    system = SystemTranslator.load(options.exported, threads=options.threads)
    start = time.process_time()
    answers = system.translate([Request(*each) for each in work])
    return dict(zip(work, answers, strict=True)), len(work) / (time.process_time() - start)


def interactive(options: Namespace, lines: Sequence[str]) -> dict[str, Any]:
    """Run fairseq-interactive on all lines, in batches of the service's size."""
    folder = options.exported
    manifest = json.loads((folder / "system.json").read_text(encoding="utf-8"))
    # fmt: off
    command = [
        sys.executable, "-m", "fairseq_cli.interactive", str(folder), "--path", str(folder / "model.pt"),
        "--user-dir", str(ROOT / "fairseq_ext"), "--task", "multi_domain_translation", "--cpu",
        "--source-lang", manifest["languages"][0], "--target-lang", manifest["languages"][1],
        "--beam", str(manifest["generation"].get("beam", 5)), "--max-tokens", "1024", "--buffer-size", "256",
        "--bpe", "sentencepiece", "--sentencepiece-model", str(folder / "sentencepiece.model"),
    ]
    # fmt: on
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    start, cpu = time.perf_counter(), children_cpu()
    given = "".join(f"{line}\n" for line in lines)
    result = subprocess.run(command, input=given, capture_output=True, text=True, env=environment, check=False)
    wall, cpu = time.perf_counter() - start, children_cpu() - cpu
    found = re.findall(r"^D-(\d+)\t[^\t]*\t(.*)$", result.stdout, re.MULTILINE)
    if len(found) < len(lines):
        return {"failed": result.stderr.strip().splitlines()[-1:]}
    return {
        "sentences_per_second": round(len(lines) / wall, 2),
        "sentences_per_cpu_second": round(len(lines) / cpu, 2),
        "texts": {lines[int(number)]: text for number, text in found},
    }


def children_cpu() -> float:
    """Return the CPU time of finished child processes in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def equal(options: Namespace, lines: Sequence[str], routes: Sequence[str]) -> dict[str, Any]:
    work = list(dict.fromkeys((line, routes[number % len(routes)]) for number, line in enumerate(lines)))
    random.Random(1).shuffle(work)
    expected, speed = offline(options, work)
    server, tally = Server(options), Tally()
    before, cpu = server.rss(), server.cpu()
    start = time.perf_counter()

    async def all_clients() -> None:
        shared = iter(work)
        await asyncio.gather(*(client(server.port, shared, tally) for _ in range(options.clients)))

    asyncio.run(all_clients())
    wall = time.perf_counter() - start
    after, cpu = server.rss(), server.cpu() - cpu
    figures = tally.figures(wall) | {
        "sentences_per_cpu_second": round(len(work) / cpu, 2),
        "rss_mib": [before, after],
        "exit": server.stop(),
        "routes": list(routes),
    }
    differ = [each for each in work if expected[each].candidates[0].text != tally.answers[each]["text"]]
    gaps = [
        abs(expected[each].candidates[0].score - tally.answers[each]["score"]) for each in work if each not in differ
    ]
    figures |= {"sentences": len(work), "differ": len(differ), "largest_gap_of_scores": round(max(gaps), 5)}
    figures["examples"] = [
        {"source": each, "offline": expected[each].candidates[0].text, "served": tally.answers[each]["text"]}
        for each in differ[:5]
    ]
    return {"served": figures, "offline_sentences_per_cpu_second": round(speed, 2)}


def compare(options: Namespace, lines: Sequence[str], route: str) -> dict[str, Any]:
    """Measure a single route, so that fairseq-interactive is comparable."""
    found = interactive(options, lines)
    texts = found.pop("texts", {})
    result = equal(options, lines, [route])
    return {**result, "fairseq_interactive": found | {"texts": len(texts)}}


def load(options: Namespace, lines: Sequence[str], routes: Sequence[str]) -> dict[str, Any]:
    work = [(line, routes[number % len(routes)]) for number, line in enumerate(lines)]
    expected = {each: answer.candidates[0].text for each, answer in offline(options, work)[0].items()}
    server, tally, killed = Server(options), Tally(), 0
    memory: list[float] = []
    start = time.perf_counter()

    def endless(seed: int) -> Any:
        source = random.Random(seed)
        while True:
            yield source.choice(work)

    async def kill_clients() -> None:
        nonlocal killed
        while time.perf_counter() - start < 60 * options.minutes:
            body = json.dumps({"texts": random.sample(list(lines), 16), "route": routes[killed % len(routes)]})
            victim = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _VICTIM, str(server.port), body), stdout=asyncio.subprocess.PIPE
            )
            assert victim.stdout is not None
            await victim.stdout.readline()
            await asyncio.sleep(random.random() / 4)
            victim.kill()
            await victim.wait()
            killed += 1
            memory.append(server.rss())
            if killed % 60 == 0:
                print(f"{killed} killed, {tally.statuses}, {tally.wrong} wrong, {memory[-1]} MiB", file=sys.stderr)
            await asyncio.sleep(0.75)
        server.process.send_signal(signal.SIGTERM)

    async def all_clients() -> None:
        clients = (client(server.port, endless(seed), tally, expected) for seed in range(options.clients))
        await asyncio.gather(kill_clients(), *clients)

    asyncio.run(all_clients())
    wall = time.perf_counter() - start
    tenth = max(1, len(memory) // 10)
    means = [round(statistics.mean(memory[at : at + tenth]), 1) for at in range(0, len(memory), tenth)]
    figures = {"minutes": round(wall / 60, 1), "killed": killed, "rss_mib_by_tenth": means}
    return tally.figures(wall) | figures | {"exit": server.process.wait()}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("what", choices=["equal", "compare", "load", "hostile"])
    parser.add_argument("exported", type=Path, help="exported system")
    parser.add_argument("file", type=Path, help="lines to translate")
    parser.add_argument("--lines", type=int, default=1400, help="number of lines to use, spread over the file")
    parser.add_argument("--clients", type=int, default=64, help="number of parallel clients")
    parser.add_argument("--minutes", type=float, default=30, help="duration of the load test in minutes")
    parser.add_argument("--requests", type=int, default=20_000, help="requests that show whether memory grows")
    parser.add_argument("--threads", type=int, default=1, help="threads of the model")
    parser.add_argument("--routes", nargs="+", default=["base"], help="routes to measure, in turn")


def measure(options: Namespace) -> dict[str, Any]:
    """Run the measurements that were requested, by name."""
    lines = [line for line in options.file.read_text(encoding="utf-8").splitlines() if line.strip()]
    lines = [lines[number * len(lines) // options.lines] for number in range(min(options.lines, len(lines)))]
    if options.what == "compare":
        return compare(options, lines, options.routes[0])
    if options.what == "hostile":
        return hostile.measure(Server(options), options.requests)
    return {"equal": equal, "load": load}[options.what](options, lines, options.routes)

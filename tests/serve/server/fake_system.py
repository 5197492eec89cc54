"""A system that needs no model: words between marks come back turned round; run as a program, it is served."""

import re
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from fairseq_ext.base.errors import InputError, run_command
from fairseq_ext.cli.main import run_verb
from fairseq_ext.serve.runtime.pieces import MARK, PRIVATE
from fairseq_ext.serve.runtime.requests import Answer, Candidate, Request, TokenGates
from fairseq_ext.serve.server import server

DOMAINS = ["law", "med", "sub"]
LAYERS = 3


class FakeSystem:
    """Gated adapters of three domains. Their gates go by the first letter of a text, of each of its words where the
    decoder is at it, and a route is a word more. Pieces are of at most three letters.
    """

    name = "GAD"
    languages = ("en", "pl")
    domains = DOMAINS
    routes = ["gates", "classifier", "base", *DOMAINS]
    default_route = "gates"
    base = "Some model; licence MPL-2.0"

    def __init__(self) -> None:
        self.batches: list[list[str]] = []  # the texts of every call
        self.go = threading.Event()  # what ``wait`` in a text waits for
        self.waits = threading.Event()  # set when one does

    def count_pieces(self, text: str) -> int:
        return len(text.split()) + 1

    def extra_work(self, request: Request) -> int:
        found = request.terms.found_in(request.text) if request.terms else []
        return sum(len(term.targets[0].split()) for term in found) + len(MARK.findall(request.text))

    def translate(
        self,
        requests: Sequence[Request],
        *,
        beam: int | None = None,
        candidates: int = 1,
        with_gates: bool = True,
        label: Any = str,
    ) -> list[Answer]:
        self.batches.append([request.text for request in requests])
        if any("wait" in request.text for request in requests):
            self.waits.set()
            assert self.go.wait(60)
        for number, request in enumerate(requests):
            if "endless" in request.text:
                raise InputError(f"{label(number)}: too long")
            if "broken" in request.text:
                raise RuntimeError("no memory")
        return [self._answer(request, candidates, with_gates) for request in requests]

    def _answer(self, request: Request, candidates: int, with_gates: bool) -> Answer:
        parts = re.split(f"(\\s*{PRIVATE}\\s*)", request.text)
        words = "".join(part if place % 2 else " ".join(part.split()[::-1]) for place, part in enumerate(parts)).split()
        words += [] if request.route == "gates" else [f"[{request.route}]"]
        domain = "med" if request.route == "classifier" else request.route if request.route in DOMAINS else None
        candidate = tuple(Candidate(" ".join(words), -0.25 - rank) for rank in range(candidates))
        kept = tuple(found[1] for found in MARK.finditer(request.text) if found[1])
        answer = Answer(candidate, request.route, domain, placeholders=kept)
        if not with_gates or request.route == "base":
            return answer
        weights = [float(name == domain) for name in DOMAINS] if domain else self._gates(request.text)
        tokens = None
        if request.route == "gates":
            pieces = [(word, start) for word in words for start in range(0, len(word), 3)]
            tokens = TokenGates(
                [*("▁" * (not start) + word[start : start + 3] for word, start in pieces), "</s>"],
                [self._gates(word) for word, _ in [*pieces, ("", 0)]],
            )
        gates = {side: [weights] * LAYERS for side in ("encoder", "decoder")}
        return replace(answer, gates=gates, weights=weights, tokens=tokens)

    def _gates(self, text: str) -> list[float]:
        if text[:1] not in ("l", "m", "s"):
            return [0.5, 0.3, 0.2]
        return [0.7 if text[0] == name[0] else 0.15 for name in DOMAINS]


def main() -> None:
    """Serve it; what waits is told on stdout, and goes on with a line on stdin."""
    system = FakeSystem()

    def tell_and_go() -> None:
        system.waits.wait()
        print("a text waits", flush=True)
        sys.stdin.readline()
        system.go.set()

    threading.Thread(target=tell_and_go, daemon=True).start()
    server.SystemTranslator = SimpleNamespace(load=lambda *_, **__: system)  # type: ignore[assignment]
    run_verb(["serve", "there", "--port", "0", *sys.argv[1:]])


if __name__ == "__main__":
    run_command(main)

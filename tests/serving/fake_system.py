"""A system that needs no model: words between marks come back turned round; run as a program, it is served."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from fairseq_ext.cli.main import run_verb
from fairseq_ext.inputs.errors import InputError, run_command
from fairseq_ext.runtime.pieces import PRIVATE
from fairseq_ext.runtime.requests import Answer, Candidate, Request, TokenGates
from fairseq_ext.serving import server

DOMAINS = ["law", "med", "sub"]
LAYERS = 3


class FakeSystem:
    """Gated adapters of three domains. Their gates go by the first letter of a text, of each of its words where the
    decoder is at it, and a route is a word more. Pieces are of at most three letters.

    Attributes:
        batches: the texts of every call.
        go: what ``wait`` in a text waits for.
        waits: set when one does.
    """

    name = "GAD"
    languages = ("en", "pl")
    domains = DOMAINS
    routes = ["gates", "classifier", "base", *DOMAINS]
    default_route = "gates"

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.go = threading.Event()
        self.waits = threading.Event()

    def count_pieces(self, text: str) -> int:
        return len(text.split()) + 1

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
        if request.route != "gates":
            words.append(f"[{request.route}]")
        domain = "med" if request.route == "classifier" else request.route if request.route in DOMAINS else None
        weights = [1.0 if name == domain else 0.0 for name in DOMAINS] if domain else self._gates(request.text)
        gated = with_gates and request.route != "base"
        return Answer(
            tuple(Candidate(" ".join(words), -0.25 - rank) for rank in range(candidates)),
            request.route,
            domain,
            {side: [weights] * LAYERS for side in ("encoder", "decoder")} if gated else None,
            weights if gated else None,
            self._token_gates(words) if gated and request.route == "gates" else None,
        )

    def _token_gates(self, words: Sequence[str]) -> TokenGates:
        pieces, weights = [], []
        for word in words:
            cut = [word[start : start + 3] for start in range(0, len(word), 3)]
            pieces += [f"▁{cut[0]}", *cut[1:]]
            weights += [self._gates(word)] * len(cut)
        return TokenGates([*pieces, "</s>"], [*weights, self._gates("")])

    def _gates(self, text: str) -> list[float]:
        return next(
            ([0.7 if n[0] == d[0] else 0.15 for d in DOMAINS] for n in DOMAINS if text[:1] == n[0]), [0.5, 0.3, 0.2]
        )


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

"""Reports of gate weights for each translated sentence."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

import torch
from fairseq.data import data_utils
from torch import Tensor

from fairseq_ext.base.domain_names import with_base
from fairseq_ext.data.gate_names import SIDES, SOURCE, STATES, TOKENS


class GateReport:
    """Prints ``G-ID`` lines, and writes the gate weights by layer as JSON lines.

    The weights are those of the best hypothesis; decoding is not affected.

    Args:
        prints: whether to print ``G-ID<tab>NAME=weight …``, averaged over all layers; ``base`` is what is left to one.
        path: file for ``{"id", "encoder": [L][D], "decoder": [L][D]}`` per sentence; if gates have several inputs, also
            for the weights that each would give alone. Empty for no file.
    """

    def __init__(self, domains: list[str], prints: bool = False, path: str = ""):
        self.domains = domains
        self.prints = prints
        self.path = Path(path) if path else None
        self.sides = (*SIDES, SOURCE, *STATES)
        self._has_written = False
        self._lines_read = 0
        self._expected: dict[tuple[int, ...], deque[int]] = defaultdict(deque)

    @property
    def is_wanted(self) -> bool:
        return self.prints or self.path is not None

    def expect(self, src_tokens: list[Tensor]) -> None:
        """Number the lines as fairseq-interactive does, because it does not pass on its numbers."""
        if self.is_wanted:
            self._expected.clear()
            for tokens in src_tokens:
                self._expected[tuple(tokens.tolist())].append(self._lines_read)
                self._lines_read += 1

    def _ids(self, sample: dict, pad: int) -> list[int]:
        if "id" in sample:
            return sample["id"].tolist()
        # Identical lines have identical gates, so their order does not matter.
        rows = sample["typed_tokens"].tolist()
        return [self._expected[tuple(token for token in row if token != pad)].popleft() for row in rows]

    def add(self, sample: dict, hypotheses: list, pad: int) -> None:
        """Report the gates of a translated batch, if :func:`attach_gates` added any."""
        if "gates" in hypotheses[0][0]:
            for number, best in zip(self._ids(sample, pad), (ranked[0] for ranked in hypotheses), strict=True):
                gates = best["gates"]
                self._report(number, {side: gates[side].tolist() for side in self.sides if side in gates})

    def _report(self, number: int, sides: dict[str, list[list[float]]]) -> None:
        layers = sides["encoder"] + sides["decoder"]
        if self.prints:
            means = [sum(weights) / len(layers) for weights in zip(*layers, strict=True)]
            shares = with_base(dict(zip(self.domains, means, strict=True)))
            print(f"G-{number}\t{' '.join(f'{name}={share:.3f}' for name, share in shares.items())}", flush=True)
        if self.path is not None:
            rounded = {side: [[round(w, 5) for w in layer] for layer in rows] for side, rows in sides.items()}
            with self.path.open("a" if self._has_written else "w", encoding="utf-8") as file:
                file.write(json.dumps({"id": number, **rounded}) + "\n")
            self._has_written = True


def attach_gates(models: list, net_input: dict, hypotheses: list, dictionary: Any) -> None:
    """Add ``gates`` to the best hypothesis of each sentence: L×D routing weights of ``encoder`` and ``decoder``.

    They come from one teacher-forced pass over the hypothesis. A decoder layer's weights are averaged over the target
    positions, an ensemble's over its models. ``tokens`` are the decoder's weights at each of its T positions, T×D.
    Weights that inputs would give alone are added if all models have them. Models without gates are skipped.
    """
    gated = [model for model in models if hasattr(model, "gate_weights")]
    if not gated:
        return
    tokens = [found[0]["tokens"] for found in hypotheses]
    # Decoding starts with the last token of the hypotheses: </s> or a language token.
    prev_output_tokens = data_utils.collate_tokens(tokens, dictionary.pad(), move_eos_to_beginning=True)
    prev_output_tokens = prev_output_tokens.to(net_input["src_tokens"].device)
    with torch.no_grad():
        weights = [model.gate_weights(net_input, prev_output_tokens) for model in gated]
    shared = [side for side in weights[0] if all(side in found for found in weights)]
    sides = {side: torch.stack([found[side] for found in weights]).mean(0).cpu() for side in shared}
    for row, found in enumerate(hypotheses):
        gates = {side: layers[row] for side, layers in sides.items()}
        found[0]["gates"] = gates | {TOKENS: gates[TOKENS][: len(tokens[row])]}

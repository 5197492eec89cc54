"""The encoder and decoder graphs of an exported model, and the decoding state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from fairseq_ext.inputs.errors import InputError

_NEVER = np.float32(-1e9)  # same value as in the graphs' masks
_STEPS = 4  # initial capacity of the caches in steps, and the minimum by which they grow


# Graph inputs that weight the adapters of B sentences: ``given`` (B×D) for models with adapters, and ``is_forced``
# (B×1) for models with gates, 1 where ``given`` replaces the weights of the gates.
Route = dict[str, np.ndarray]


class Model:
    """Encoder and decoder, loaded from ONNX files. Several threads may share one instance."""

    def __init__(self, encoder: Path, decoder: Path, threads: int = 1, device: str = "cpu") -> None:
        self._encoder, self._decoder = (_session(path, threads, device) for path in (encoder, decoder))
        self.encoder_outputs = [each.name for each in self._encoder.get_outputs()]
        self.decoder_outputs = [each.name for each in self._decoder.get_outputs()]
        inputs = {each.name: each.shape for each in self._decoder.get_inputs()}
        self.caches = [inputs[name] for name in inputs if name.startswith("key_")]  # B×h×d×P
        self.totals = inputs.get("totals")  # B×W×L×D
        self.has_gates = "is_forced" in inputs
        self.num_adapters = inputs["given"][1] if "given" in inputs else 0

    def encode(self, tokens: np.ndarray, route: Route) -> dict[str, np.ndarray]:
        """Run the encoder on B×S tokens, and return its outputs by name."""
        found = self._encoder.run(None, {"tokens": tokens, **route})
        return dict(zip(self.encoder_outputs, found, strict=True))

    def step(self, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the decoder, and return its outputs by name."""
        return dict(zip(self.decoder_outputs, self._decoder.run(None, feed), strict=True))


class State:
    """Decoding state of B sentences with up to W hypotheses each.

    Cached keys and values are never moved. The mask of a hypothesis selects its own.
    """

    def __init__(self, model: Model, tokens: np.ndarray, route: Route, beam: int) -> None:
        self.model, self.beam, self.steps = model, beam, 0
        encoded = model.encode(tokens, route)
        self.gates = encoded.pop("gates", None)  # weights of the encoder's gates, B×L×D
        self.fixed = {**encoded, **route}
        size = len(tokens)
        self.mask = np.full((size, 1, 1, _STEPS * beam), _NEVER, np.float32)
        self.keys = [np.zeros((size, h, d, _STEPS * beam), np.float32) for _, h, d, _ in model.caches]
        self.values = [np.zeros((size, h, _STEPS * beam, d), np.float32) for _, h, d, _ in model.caches]
        self.totals: np.ndarray | None = None
        if model.totals is not None:
            self.totals = np.zeros((size, 1, *model.totals[2:]), np.float32)

    def advance(self, tokens: np.ndarray, columns: np.ndarray, most: int) -> dict[str, np.ndarray]:
        """Run one decoder step, and return its outputs.

        Args:
            tokens: last token of each hypothesis, B×W; at the first step B×1.
            columns: tokens whose log probabilities are returned in any case, N×E.
            most: number of best tokens to return.
        """
        if self.steps * self.beam + self.beam > self.mask.shape[3]:
            self._grow()
        feed = {
            **self.fixed,
            "tokens": tokens,
            "step": np.array([self.steps]),
            "columns": columns,
            "most": np.array([most]),
            "past_mask": self.mask,
            **{f"key_{number}": each for number, each in enumerate(self.keys)},
            **{f"value_{number}": each for number, each in enumerate(self.values)},
        }
        if self.totals is not None:
            feed["totals"] = self.totals
        found = self.model.step(feed)
        first = self.steps * self.beam
        places = slice(first, first + tokens.shape[1])
        for number, (key, value) in enumerate(zip(self.keys, self.values, strict=True)):
            key[..., places] = found[f"new_key_{number}"].swapaxes(2, 3)
            value[:, :, places] = found[f"new_value_{number}"]
        self.totals = found.get("new_totals")
        return found

    def follow(self, parents: np.ndarray) -> None:
        """Continue hypothesis w of sentence b from hypothesis ``parents[b, w]``; ``parents`` is B×W."""
        rows = np.arange(len(parents))[:, None]
        self.mask = self.mask[rows, 0, parents][:, None]
        self.mask[rows, 0, np.arange(self.beam), self.steps * self.beam + parents] = 0
        if self.totals is not None:
            self.totals = self.totals[rows, parents]
        self.steps += 1

    def keep(self, rows: np.ndarray) -> None:
        """Keep only the given sentences."""
        self.fixed = {name: value[rows] for name, value in self.fixed.items()}
        self.keys = [each[rows] for each in self.keys]
        self.values = [each[rows] for each in self.values]
        self.mask = self.mask[rows]
        self.totals = None if self.totals is None else self.totals[rows]

    def _grow(self) -> None:
        more = max(_STEPS, self.steps // 4) * self.beam
        self.mask = np.pad(self.mask, [(0, 0)] * 3 + [(0, more)], constant_values=_NEVER)
        self.keys = [np.pad(each, [(0, 0)] * 3 + [(0, more)]) for each in self.keys]
        self.values = [np.pad(each, [(0, 0), (0, 0), (0, more), (0, 0)]) for each in self.values]


def padded(rows: Sequence[np.ndarray], pad: int) -> np.ndarray:
    """Pad rows of tokens to one array, B×T."""
    found = np.full((len(rows), max(map(len, rows))), pad, np.int64)
    for own, row in zip(found, rows, strict=True):
        own[: len(row)] = row
    return found


def attend(
    model: Model, sources: np.ndarray, route: Route, targets: Sequence[np.ndarray], first: int
) -> list[np.ndarray]:
    """Return the decoder's attention to the source before each token of the given translations.

    Shape:
        sources: B×S, padded; result: B arrays of T×S, rows sum to one
    """
    state = State(model, sources, route, 1)
    before = padded([np.array([first, *target[:-1]]) for target in targets], first)
    shares = []
    for column in before.T[..., None]:
        shares.append(state.advance(column, np.full((len(targets), 1), first), 1)["attention"])
        state.follow(np.zeros((len(targets), 1), np.int64))
    joined = np.concatenate(shares, axis=1)
    return [own[: len(target)] for own, target in zip(joined, targets, strict=True)]


def _session(path: Path, threads: int, device: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    # Spinning threads would take the cores from other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(device.partition(":")[0])
    if provider not in onnxruntime.get_available_providers():
        raise InputError(f"device {device}: not supported by this ONNX Runtime; use cpu")
    return onnxruntime.InferenceSession(str(path), options, [provider])

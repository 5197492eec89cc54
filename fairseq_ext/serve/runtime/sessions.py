"""Sessions of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.runtime.vocabulary import REMEDY

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class Session:
    """A graph in ONNX Runtime, computed by one thread. Its errors are one line that names the file.

    Args:
        graph: file of the graph.
        device: ``cpu``, or ``cuda`` if ONNX Runtime supports it.
        constants: what :func:`as_constants` made of arrays, in the place of the graph's constants with these names. The
            session refers to them: keep them as long as the session.

    Attributes:
        inputs: shapes of the inputs by name.
        outputs: names of the outputs.
    """

    def __init__(self, graph: Path, device: str = "cpu", constants: Mapping[str, Any] | None = None) -> None:
        self._graph = graph
        provider = _PROVIDERS.get(device.partition(":")[0])
        if provider not in onnxruntime.get_available_providers():
            raise InputError(f"device {device}: not supported by this ONNX Runtime; use cpu")
        options = _session_options(constants or {})
        with self._one_line_errors():
            self._session = onnxruntime.InferenceSession(str(graph), options, [provider])
        self.inputs = {each.name: each.shape for each in self._session.get_inputs()}
        self.outputs = [each.name for each in self._session.get_outputs()]

    def run(self, feed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Return the outputs for these inputs."""
        with self._one_line_errors():
            found: list[np.ndarray] = self._session.run(None, feed)
        return found

    @contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # ONNX Runtime's have no class of their own
            reason = " ".join(str(error).split())[:300]
            raise InputError(f"{self._graph}: ONNX Runtime cannot compute it ({reason}); {REMEDY}") from None


def _session_options(constants: Mapping[str, Any]) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = 1, 1
    options.log_severity_level = 3
    for name, constant in constants.items():
        options.add_initializer(name, constant)
    if constants:
        # Optimisation, and the reuse of buffers, would go by values and sizes of the constants that are replaced.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.enable_mem_reuse = False
    return options


def as_constants(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return arrays as constants for :class:`Session`."""
    return {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}

"""Sessions of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from fairseq_ext.inputs.errors import InputError

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


def make_session(graph: Path, threads: int = 1, device: str = "cpu", constants: Mapping[str, Any] | None = None) -> Any:
    """Load a graph.

    Args:
        threads: threads within an operator.
        device: ``cpu``, or ``cuda`` if ONNX Runtime supports it.
        constants: what :func:`as_constants` made of arrays, in the place of the graph's constants with these names. The
            session refers to them: keep them as long as the session.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    # Spinning threads would take the cores from other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    for name, constant in (constants or {}).items():
        options.add_initializer(name, constant)
    if constants:
        # Optimisation, and the reuse of buffers, would go by values and sizes of the constants that are replaced.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.enable_mem_reuse = False
    provider = _PROVIDERS.get(device.partition(":")[0])
    if provider not in onnxruntime.get_available_providers():
        raise InputError(f"device {device}: not supported by this ONNX Runtime; use cpu")
    return onnxruntime.InferenceSession(str(graph), options, [provider])


def as_constants(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return arrays as constants for :func:`make_session`."""
    return {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}

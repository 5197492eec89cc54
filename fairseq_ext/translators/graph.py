"""Writing ONNX graphs: operators by name, constants where they are used, matrices in float32 or int8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET, _IR_VERSION = 20, 9
_MICROSOFT = "com.microsoft"
_LARGEST = 127  # of int8, the same on both sides of zero
_SMALLEST = 64  # side of a matrix that is worth it
_ZERO = np.array(128, np.uint8)  # of what a matrix is multiplied by
_STEP = np.array(1 / _LARGEST, np.float32)
_TYPES = {"float": TensorProto.FLOAT, "int": TensorProto.INT64}


@dataclass
class Graph:
    """A graph that grows operator by operator; values are names, and arrays become constants.

    Attributes:
        is_int8: whether matrices are kept as int8.
    """

    is_int8: bool = False
    _nodes: list[Any] = field(default_factory=list)
    _constants: dict[str, np.ndarray] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _arrays: dict[int, np.ndarray] = field(default_factory=dict)
    _inputs: list[Any] = field(default_factory=list)
    _outputs: list[Any] = field(default_factory=list)

    def input(self, name: str, kind: str, shape: Sequence[int | str]) -> str:
        """An input of type ``float`` or ``int``."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[kind], shape))
        return name

    def output(self, name: str, value: str, kind: str = "float") -> None:
        """Make a value an output."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, _TYPES[kind], None))

    def op(self, kind: str, *values: str | np.ndarray, **attributes: Any) -> str:
        """An operator with one result."""
        return self.ops(kind, 1, *values, **attributes)[0]

    def ops(self, kind: str, results: int, *values: str | np.ndarray, domain: str = "", **attributes: Any) -> list[str]:
        """An operator with so many results."""
        names = [f"{kind}_{len(self._nodes)}_{number}" for number in range(results)]
        inputs = [value if isinstance(value, str) else self._constant(value) for value in values]
        self._nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names

    def linear(self, x: str, weight: np.ndarray, bias: np.ndarray | None, added: str | None = None) -> str:
        """``x @ weight.T + bias + added``.

        In int8 every row of the weight has a scale, and every row of ``x`` another, so that what a sentence becomes
        does not depend on its batch.

        Shape:
            x: N×K; weight: P×K; bias: P; added, result: N×P
        """
        if self.is_int8 and min(weight.shape) >= _SMALLEST:
            product, scale = self.scaled_product(x, weight)
            result = self.op("Mul", product, scale)
            result = result if bias is None else self.op("Add", result, bias)
            return result if added is None else self.op("Add", result, added)
        if added is not None:
            return self.op("Gemm", x, weight, added if bias is None else self.op("Add", added, bias), transB=1)
        return self.op("Gemm", x, weight, *([] if bias is None else [bias]), transB=1)

    def scaled_product(self, x: str, weight: np.ndarray) -> tuple[str, str]:
        """An int8 product and what its rows have to be multiplied by: N×P, N×1."""
        largest = self.op("ReduceMax", self.op("Abs", x), np.array([1]), keepdims=1)
        largest = self.op("Max", largest, np.array(1e-30, np.float32))
        rounded = self.op("QuantizeLinear", self.op("Div", x, largest), _STEP, _ZERO)
        numbers, scales = to_int8(weight)
        product = self.op(
            "MatMulIntegerToFloat", rounded, np.ascontiguousarray(numbers.T), _STEP, scales, _ZERO, domain=_MICROSOFT
        )
        return product, largest

    def embed(self, tokens: str, table: np.ndarray) -> str:
        """The rows of a V×H table: of N tokens N×H."""
        if not self.is_int8:
            return self.op("Gather", table, tokens)
        numbers, scales = to_int8(table)
        rows = self.op("Cast", self.op("Gather", numbers, tokens), to=TensorProto.FLOAT)
        return self.op("Mul", rows, self.op("Gather", scales[:, None], tokens))

    def array(self, weight: Any, convert: Callable[[Any], np.ndarray]) -> np.ndarray:
        """A weight as an array; that of a weight that was used before is the same."""
        if id(weight) not in self._arrays:
            self._arrays[id(weight)] = convert(weight)
        return self._arrays[id(weight)]

    def as_float(self, value: str) -> str:
        return self.op("Cast", value, to=TensorProto.FLOAT)

    def as_int(self, value: str) -> str:
        return self.op("Cast", value, to=TensorProto.INT64)

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, np.array(shape))

    def write(self, path: Path, description: str) -> None:
        """Write the graph, with its constants, as one file."""
        constants = [numpy_helper.from_array(value, name) for name, value in self._constants.items()]
        graph = helper.make_graph(self._nodes, description, self._inputs, self._outputs, constants)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="fairseq-ext")
        onnx.save(model, path)

    def _constant(self, value: np.ndarray) -> str:
        """The name of a constant; that of an array that was used before is the same."""
        if id(value) not in self._names:
            name = f"constant_{len(self._constants)}"
            self._names[id(value)] = name
            self._constants[name] = value
        return self._names[id(value)]


def to_int8(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix as int8 with a scale a row: P×K, P."""
    scales = np.maximum(np.abs(weight).max(1), 1e-30) / _LARGEST
    return np.rint(weight / scales[:, None]).astype(np.int8), scales.astype(np.float32)

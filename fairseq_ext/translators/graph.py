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


@dataclass(frozen=True, eq=False)
class Value:
    """What an operator of a graph makes. Arithmetic with it adds operators."""

    graph: Graph
    name: str

    def __add__(self, other: Operand) -> Value:
        return self.graph.op("Add", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self.graph.op("Sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return self.graph.op("Mul", self, other)

    def __truediv__(self, other: Operand) -> Value:
        return self.graph.op("Div", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self.graph.op("Div", other, self)

    def __mod__(self, other: Operand) -> Value:
        return self.graph.op("Mod", self, other)

    def __matmul__(self, other: Operand) -> Value:
        return self.graph.op("MatMul", self, other)

    def __and__(self, other: Operand) -> Value:
        return self.graph.op("And", self, other)

    def __invert__(self) -> Value:
        return self.graph.op("Not", self)

    def reduced(self, kind: str, axis: int, *, keep: bool = True) -> Value:
        """``Sum``, ``Max``, ``Min`` or ``Mean`` along an axis, which stays unless that is not wanted."""
        return self.graph.op(f"Reduce{kind}", self, np.array([axis]), keepdims=int(keep))

    def unsqueeze(self, *axes: int) -> Value:
        return self.graph.op("Unsqueeze", self, np.array(axes))

    def reshape(self, *shape: int) -> Value:
        return self.graph.op("Reshape", self, np.array(shape))

    def softmax(self) -> Value:
        return self.graph.op("Softmax", self, axis=-1)

    def as_float(self) -> Value:
        return self.graph.op("Cast", self, to=TensorProto.FLOAT)

    def as_int(self) -> Value:
        return self.graph.op("Cast", self, to=TensorProto.INT64)


Operand = Value | np.ndarray | float


@dataclass
class Graph:
    """A graph that grows operator by operator; arrays and numbers become constants."""

    is_int8: bool = False  # whether matrices are kept as int8
    _nodes: list[Any] = field(default_factory=list)
    _constants: dict[str, np.ndarray] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _arrays: dict[int, np.ndarray] = field(default_factory=dict)
    _inputs: list[Any] = field(default_factory=list)
    _outputs: list[Any] = field(default_factory=list)

    def input(self, name: str, kind: str, shape: Sequence[int | str]) -> Value:
        """An input of type ``float`` or ``int``."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[kind], shape))
        return Value(self, name)

    def output(self, name: str, value: Value, kind: str = "float") -> None:
        """Make a value an output."""
        self._nodes.append(helper.make_node("Identity", [value.name], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, _TYPES[kind], None))

    def op(self, kind: str, *values: Operand, **attributes: Any) -> Value:
        """An operator with one result."""
        return self.ops(kind, 1, *values, **attributes)[0]

    def ops(self, kind: str, results: int, *values: Operand, domain: str = "", **attributes: Any) -> list[Value]:
        """An operator with so many results."""
        names = [f"{kind}_{len(self._nodes)}_{number}" for number in range(results)]
        inputs = [value.name if isinstance(value, Value) else self._constant(value) for value in values]
        self._nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return [Value(self, name) for name in names]

    def concat(self, *values: Operand, axis: int) -> Value:
        return self.op("Concat", *values, axis=axis)

    def linear(self, x: Value, weight: np.ndarray, bias: np.ndarray | None, added: Value | None = None) -> Value:
        """``x @ weight.T + bias + added``.

        In int8 every row of the weight has a scale, and every row of ``x`` another, so that what a sentence becomes
        does not depend on its batch.

        Shape:
            x: N×K; weight: P×K; bias: P; added, result: N×P
        """
        if self.is_int8 and min(weight.shape) >= _SMALLEST:
            largest = self.op("Max", self.op("Abs", x).reduced("Max", 1), 1e-30)
            rounded = self.op("QuantizeLinear", x / largest, _STEP, _ZERO)
            numbers, scales = to_int8(weight)
            columns = np.ascontiguousarray(numbers.T)
            product = self.op("MatMulIntegerToFloat", rounded, columns, _STEP, scales, _ZERO, domain=_MICROSOFT)
            result = product * largest
            result = result if bias is None else result + bias
            return result if added is None else result + added
        if added is not None:
            return self.op("Gemm", x, weight, added if bias is None else added + bias, transB=1)
        return self.op("Gemm", x, weight, *([] if bias is None else [bias]), transB=1)

    def embed(self, tokens: Value, table: np.ndarray) -> Value:
        """The rows of a V×H table: of N tokens N×H."""
        if not self.is_int8:
            return self.op("Gather", table, tokens)
        numbers, scales = to_int8(table)
        return self.op("Gather", numbers, tokens).as_float() * self.op("Gather", scales[:, None], tokens)

    def array(self, weight: Any, convert: Callable[[Any], np.ndarray]) -> np.ndarray:
        """A weight as an array; that of a weight that was used before is the same."""
        if id(weight) not in self._arrays:
            self._arrays[id(weight)] = convert(weight)
        return self._arrays[id(weight)]

    def write(self, path: Path, description: str) -> None:
        """Write the graph, with its constants, as one file."""
        constants = [numpy_helper.from_array(value, name) for name, value in self._constants.items()]
        graph = helper.make_graph(self._nodes, description, self._inputs, self._outputs, constants)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="fairseq-ext")
        onnx.save(model, path)

    def _constant(self, value: np.ndarray | float) -> str:
        """The name of a constant; that of an array that was used before is the same."""
        if not isinstance(value, np.ndarray):
            value = np.array(value, np.float32 if isinstance(value, float) else np.int64)
        if id(value) not in self._names:
            name = f"constant_{len(self._constants)}"
            self._names[id(value)] = name
            self._constants[name] = value
        return self._names[id(value)]


def to_int8(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix as int8 with a scale a row: P×K, P."""
    scales = np.maximum(np.abs(weight).max(1), 1e-30) / _LARGEST
    return np.rint(weight / scales[:, None]).astype(np.int8), scales.astype(np.float32)

"""Builder for ONNX graphs: operators by name, inline constants, and matrices in float32 or int8."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from fairseq_ext.serve.runtime.manifest import constants_file

_OPSET, _IR_VERSION = 20, 9
_MICROSOFT = "com.microsoft"
_LARGEST = 127  # int8 range is symmetric around zero
_SMALLEST = 64  # smaller matrices are not quantized
_LARGEST_UNSIGNED = 255
LARGEST = "largest_"  # outputs of a watched graph, with a number
_TYPES = {"float": TensorProto.FLOAT, "int": TensorProto.INT64}
_LAST = np.iinfo(np.int64).max
# Constants of this size are stored outside of the graph: Protocol Buffers limit a file to 2 GB, and copy its content.
LARGE_BYTES = 8 << 20
_PAGE_BYTES = 4096


def _operator(kind: str) -> Callable[[Value, Operand], Value]:
    return lambda one, other: one.graph.op(kind, one, other)


@dataclass(frozen=True, eq=False)
class Value:
    """The output of an operator in a graph. Arithmetic on values adds operators to the graph."""

    graph: Graph
    name: str

    __add__ = _operator("Add")
    __mul__ = _operator("Mul")
    __truediv__ = _operator("Div")
    __mod__ = _operator("Mod")
    __matmul__ = _operator("MatMul")
    __and__ = _operator("And")

    def __invert__(self) -> Value:
        return self.graph.op("Not", self)

    def reduced(self, kind: str, axis: int, *, keep: bool = True) -> Value:
        """Reduce an axis by ``Sum``, ``Max``, ``Min`` or ``Mean``; ``keep`` retains it with size 1."""
        return self.graph.op(f"Reduce{kind}", self, [axis], keepdims=int(keep))

    def between(self, begin: int, end: int | None, axis: int) -> Value:
        """Slice along an axis; ``end`` None means to the end."""
        return self.graph.op("Slice", self, [begin], [_LAST if end is None else end], [axis])

    def unsqueeze(self, *axes: int) -> Value:
        return self.graph.op("Unsqueeze", self, axes)

    def reshape(self, *shape: int) -> Value:
        return self.graph.op("Reshape", self, shape)

    def softmax(self) -> Value:
        return self.graph.op("Softmax", self, axis=-1)

    def cast(self, kind: str) -> Value:
        """Cast to ``float`` (float32) or ``int`` (int64)."""
        return self.graph.op("Cast", self, to=_TYPES[kind])


Operand = Value | Tensor | np.ndarray | Sequence[int] | float


@dataclass
class Graph:
    """A graph under construction. Arrays and numbers become constants."""

    is_int8: bool = False  # whether matrices are stored as int8
    maxima: Sequence[float] = ()  # largest absolute inputs of products in int8, in the order of the products
    is_watched: bool = False  # whether the graph in float32 outputs these maxima
    _nodes: list[Any] = field(default_factory=list)
    # Name, array and original object by id of the object. The object is kept so that its id is not reused.
    _constants: dict[int, tuple[str, np.ndarray, Any]] = field(default_factory=dict)
    _inputs: list[Any] = field(default_factory=list)
    _outputs: list[Any] = field(default_factory=list)
    _rounded_values: dict[str, tuple[Value, np.ndarray, np.ndarray]] = field(default_factory=dict)
    _watched: set[str] = field(default_factory=set)

    def input(self, name: str, kind: str, shape: Sequence[int | str]) -> Value:
        """Add an input of type ``float`` or ``int``."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[kind], shape))
        return Value(self, name)

    def placeholder(self, name: str, array: np.ndarray) -> Value:
        """Add a constant that the runtime replaces by one of another size."""
        self._constants[id(array)] = (name, array, array)
        return Value(self, name)

    def output(self, name: str, value: Value, kind: str = "float") -> None:
        """Declare a value as an output."""
        self._nodes.append(helper.make_node("Identity", [value.name], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, _TYPES[kind], None))

    def op(self, kind: str, *values: Operand | None, **attributes: Any) -> Value:
        """Add an operator with one result."""
        return self.ops(kind, 1, *values, **attributes)[0]

    def ops(self, kind: str, results: int, *values: Operand | None, domain: str = "", **attributes: Any) -> list[Value]:
        """Add an operator with several results; None omits an input."""
        names = [f"{kind}_{len(self._nodes)}_{number}" for number in range(results)]
        inputs = [self._name(value) for value in values]
        self._nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return [Value(self, name) for name in names]

    def concat(self, *values: Operand, axis: int) -> Value:
        return self.op("Concat", *values, axis=axis)

    def linear(
        self, x: Value, weight: Tensor, bias: Tensor | None, added: Value | None = None, is_relu: bool = False
    ) -> Value:
        """Compute ``x @ weight.T + bias + added``.

        In int8, every row of the weight has a separate scale, and ``x`` has one that does not depend on the batch.

        Args:
            is_relu: whether to compute it with ``relu(x)``.

        Shape:
            x: N×K; weight: P×K; bias: P; added, result: N×P
        """
        if self._is_rounded(x, *weight.shape):
            numbers, scales = to_int8(weight)
            return self.product(x, np.ascontiguousarray(numbers.T), scales, bias, added, is_relu)
        x = self.op("Relu", x) if is_relu else x
        if added is not None:
            return self.op("Gemm", x, weight, added if bias is None else added + bias, transB=1)
        return self.op("Gemm", x, weight, *([] if bias is None else [bias]), transB=1)

    def into_chosen(self, x: Value, weight: Tensor, bias: Tensor | None, chosen: Value) -> Value:
        """Compute ``x @ weight[d].T + bias[d]`` for the A chosen d, side by side.

        Shape:
            x: N×K; weight: D×P×K; bias: D×P; chosen: A; result: N×A·P
        """
        own_bias = None if bias is None else self.op("Gather", bias, chosen).reshape(-1)
        number, size, width = weight.shape
        if self._is_rounded(x, number * size, width):
            numbers, scales = to_int8(weight.flatten(0, 1))
            by_column = np.ascontiguousarray(numbers.T).reshape(width, number, size)
            columns = self.op("Gather", by_column, chosen, axis=1).reshape(width, -1)
            own_scales = self.op("Gather", scales.reshape(number, size), chosen).reshape(-1)
            return self.product(x, columns, own_scales, own_bias)
        rows = self.op("Gather", weight, chosen).reshape(-1, width)
        return self.op("Gemm", x, rows, *([] if own_bias is None else [own_bias]), transB=1)

    def from_chosen(self, x: Value, weight: Tensor, chosen: Value, added: Value) -> Value:
        """Compute ``Σ_d x_d @ weight[d] + added`` over the A chosen d.

        Shape:
            x: N×A·K; weight: D×K×P; chosen: A; added, result: N×P
        """
        number, size, width = weight.shape
        if self._is_rounded(x, number * size, width):
            numbers, scales = to_int8(weight.flatten(0, 1).t())
            by_row = np.ascontiguousarray(numbers.T).reshape(number, size, width)
            return self.product(x, self.op("Gather", by_row, chosen).reshape(-1, width), scales, None, added)
        return self.op("Gemm", x, self.op("Gather", weight, chosen).reshape(-1, width), added)

    def product(
        self,
        x: Value,
        columns: Operand,
        scales: Operand,
        bias: Operand | None = None,
        added: Value | None = None,
        is_relu: bool = False,
    ) -> Value:
        """Compute ``(x @ columns) · scales + bias + added`` with an int8 matrix, or so with ``relu(x)``.

        Shape:
            x: N×K; columns: K×P; scales, bias: P; added, result: N×P
        """
        rounded, step, zero = self._rounded(x, is_relu)
        inputs = (rounded, columns, step, scales, zero, *([] if bias is None else [None, bias]))
        product = self.op("MatMulIntegerToFloat", *inputs, domain=_MICROSOFT)
        return product if added is None else product + added

    def _rounded(self, x: Value, is_relu: bool) -> tuple[Value, np.ndarray, np.ndarray]:
        """Return ``x`` or ``relu(x)`` as uint8, with its step and its zero. Computed once for each x."""
        if x.name not in self._rounded_values:
            largest = self.maxima[len(self._rounded_values)]
            # Numbers below the zero become the zero, so that rounding is the ReLU, too.
            step = np.array(largest / (_LARGEST_UNSIGNED if is_relu else _LARGEST), np.float32)
            zero = np.array(0 if is_relu else _LARGEST + 1, np.uint8)
            self._rounded_values[x.name] = self.op("QuantizeLinear", x, step, zero), step, zero
        return self._rounded_values[x.name]

    def _is_rounded(self, x: Value, *shape: int) -> bool:
        """Return whether the product of ``x`` with a matrix of this shape is in int8; watch ``x`` if it will be."""
        is_large = min(shape) >= _SMALLEST
        if self.is_watched and is_large and x.name not in self._watched:
            self.output(f"{LARGEST}{len(self._watched)}", self.op("ReduceMax", self.op("Abs", x), keepdims=0))
            self._watched.add(x.name)
        return self.is_int8 and is_large

    def write(self, path: Path, description: str) -> None:
        """Write the graph to a file, and large constants to another beside it, which ONNX Runtime maps to memory."""
        self._name_outputs()
        arrays = {name: array for name, array, _ in self._constants.values()}
        large = {name: array for name, array in arrays.items() if array.nbytes >= LARGE_BYTES}
        constants = [numpy_helper.from_array(array, name) for name, array in arrays.items() if name not in large]
        if large:
            constants += _write_outside(path.with_name(constants_file(path.name)), large)
        graph = helper.make_graph(self._nodes, description, self._inputs, self._outputs, constants)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="fairseq-ext")
        onnx.save(model, path)

    def _name_outputs(self) -> None:
        """Give values the names of outputs instead of copying them."""
        computed = {name for node in self._nodes for name in node.output}
        copies = [node for node in self._nodes if node.op_type == "Identity" and node.input[0] in computed]
        names = {node.input[0]: node.output[0] for node in copies}
        self._nodes = [node for node in self._nodes if node not in copies or names[node.input[0]] != node.output[0]]
        for node in self._nodes:
            for own in (node.input, node.output):
                own[:] = [names.get(name, name) for name in own]

    def _name(self, value: Operand | None) -> str:
        if value is None:
            return ""
        return value.name if isinstance(value, Value) else self._constant(value)

    def _constant(self, value: Tensor | np.ndarray | Sequence[int] | float) -> str:
        """Return the name of a constant. The same object is stored once."""
        if id(value) not in self._constants:
            self._constants[id(value)] = (f"constant_{len(self._constants)}", as_array(value), value)
        return self._constants[id(value)][0]


def as_array(value: Tensor | np.ndarray | Sequence[int] | float) -> np.ndarray:
    """Return tensors and numbers as float32."""
    if isinstance(value, Tensor):
        return np.ascontiguousarray(value.detach().float().cpu().numpy())
    return np.array(value, np.float32) if isinstance(value, float) else np.asarray(value)


def _write_outside(path: Path, arrays: Mapping[str, np.ndarray]) -> list[TensorProto]:
    """Write arrays to a file, and return constants that refer to it."""
    constants = []
    with path.open("wb") as file:
        for name, array in arrays.items():
            file.seek(-file.tell() % _PAGE_BYTES, os.SEEK_CUR)
            place = {"location": path.name, "offset": file.tell(), "length": array.nbytes}
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            constant = TensorProto(name=name, dims=array.shape, data_type=kind, data_location=TensorProto.EXTERNAL)
            for key, value in place.items():
                constant.external_data.add(key=key, value=str(value))
            file.write(array.data)
            constants.append(constant)
    return constants


def to_int8(weight: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Quantize a matrix to int8 with one scale per row: P×K, P."""
    exact = as_array(weight)
    scales = np.maximum(np.abs(exact).max(1), 1e-30) / _LARGEST
    return np.rint(exact / scales[:, None]).astype(np.int8), scales.astype(np.float32)

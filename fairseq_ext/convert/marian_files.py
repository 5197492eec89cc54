"""Files of Marian models: arrays and options, in ``.npz`` or ``.bin``, and lexical shortlists.

A ``.bin`` of version 1 is little-endian and has no compression:

* two uint64: the version and the number of arrays;
* for every array four uint64: the length of its name, its type, its number of dimensions, and the length of its data;
* all names, each with a zero byte at its end; all shapes in int32;
* one uint64 and as many unused bytes, which align the data; the data of all arrays.

Arrays of intgemm are integers followed by one float32, by which they are divided.

A shortlist ``lex.*.bin`` is little-endian, too: six uint64 (a mark, a checksum, the number of most frequent target
words, the number of target words by source word, the number of offsets, that of words), the offsets in uint64, one more
than source words, and the target words of all source words in uint32.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.base.array_file import DAMAGE
from fairseq_ext.base.errors import InputError, naming, shown
from fairseq_ext.base.yaml_file import parse_yaml
from fairseq_ext.convert.translation_vocabulary import Side
from fairseq_ext.text.lexicons import Lexicon

OPTIONS = "special:model.yml"
_ZIP, _VERSION = b"PK", 1  # beginnings of .npz and .bin
_BYTES = 0x101
_FLOATS = {0x402: np.float16, 0x404: np.float32}
# Integers of intgemm, of Bergamot's version of Marian and of Marian itself.
_INTEGERS: dict[int, type] = {0x4101: np.int8, 0x4102: np.int16, 0x10001: np.int8, 0x10002: np.int16}
# Marian pads rows of other lengths in memory, but cuts the file at the length without padding.
_ALIGNED = {0x10001: 64, 0x10002: 32}
_PACKED = 0x800 | 0x4000 | 0x10000
_MOST_DIMENSIONS, _MOST_ARRAYS, _LONGEST_NAME = 8, 100_000, 1000
_LARGEST = 1 << 34  # bytes of all arrays of a .npz
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_REMEDY = "copy or download the file again"
_SHORTLIST, _HEADER = 0xF11A48D5013417F5, 6  # the mark, and the length of the header
_OR_REMOVE = f"{_REMEDY}, or remove it to import the model without a shortlist"


@dataclass(frozen=True)
class MarianModel:
    """The float32 arrays of a model by name, and its options."""

    arrays: Mapping[str, np.ndarray]
    options: Mapping[str, Any]
    is_quantised: bool


def read_model(data: bytes, path: Path) -> MarianModel:
    """Return the model with these bytes, which are a ``.npz`` or ``.bin``, and were read from ``path``."""
    arrays, is_quantised = _read_npz(data, path) if data.startswith(_ZIP) else _read_bin(data, path)
    if OPTIONS not in arrays:
        raise InputError(f"{path}: has no entry {OPTIONS} with the model's options; give a model that Marian trained")
    options = parse_yaml(arrays.pop(OPTIONS).tobytes().rstrip(b"\0"), f"{path}: {OPTIONS}")
    floats = {name: array.astype(np.float32, copy=False) for name, array in arrays.items()}
    for name, array in floats.items():
        if not np.isfinite(array).all():
            raise InputError(f"{path}: {name} has numbers that are not finite; its training diverged")
    return MarianModel(floats, options, is_quantised)


def _read_npz(data: bytes, path: Path) -> tuple[dict[str, np.ndarray], bool]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
            if size > _LARGEST:
                raise InputError(f"{path}: its arrays have {size} bytes, more than the maximum {_LARGEST}")
            arrays = {name.removesuffix(".npy"): _entry(archive, name) for name in archive.namelist()}
    except DAMAGE as error:
        raise InputError(f"{path}: cannot be read as arrays of Marian ({error}); {_REMEDY}") from None
    for name, array in arrays.items():
        if array.dtype.kind != "f" and name != OPTIONS:
            raise InputError(f"{path}: {name} has numbers of type {array.dtype}; only models in float32 are supported")
    return arrays, False


def _entry(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Read one array, after comparing its declared size with the stored one."""
    with archive.open(name) as file:
        shape, _, kind = _HEADERS[np.lib.format.read_magic(file)](file)
        if math.prod(shape) * kind.itemsize > archive.getinfo(name).file_size:
            raise ValueError(f"{name} declares the shape {shape}, but has fewer numbers")
    with archive.open(name) as file:
        array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    return array


@dataclass(frozen=True)
class _Array:
    """The header of an array in a ``.bin``."""

    name: str
    kind: int
    shape: tuple[int, ...]
    start: int
    length: int

    @property
    def is_quantised(self) -> bool:
        return self.kind in _INTEGERS

    def read(self, data: np.ndarray) -> np.ndarray:
        """Return the array; ``data`` are the bytes of the file."""
        count, stored = math.prod(self.shape), data[self.start : self.start + self.length]
        if self.kind == _BYTES:
            return stored[:count]
        number = np.dtype(_FLOATS.get(self.kind) or _INTEGERS[self.kind]).newbyteorder("<")
        values = stored[: count * number.itemsize].view(number)
        if not self.is_quantised:
            return values.reshape(self.shape)
        scale = stored[values.nbytes : values.nbytes + 4].view("<f4")
        floats = values.astype(np.float32) / scale
        # Matrices are transposed, whatever their shape says. Tables of embeddings are not.
        return floats.reshape(self.shape) if "Wemb" in self.name else floats.reshape(self.shape[::-1]).T

    def check(self) -> None:
        """Check that the type is known and that the data have the length of the shape."""
        if self.kind not in (_BYTES, *_FLOATS, *_INTEGERS):
            form = "is packed for one kind of processor" if self.kind & _PACKED else "has numbers of another type"
            raise InputError(
                f"{self.name} {form} (type {self.kind:#x}); give the .npz, or convert it with --gemm-type float32"
            )
        if len(self.shape) > _MOST_DIMENSIONS or any(size < 1 for size in self.shape):
            raise InputError(f"{self.name} has the shape {shown(self.shape)}; the file is damaged, {_REMEDY}")
        needed = math.prod(self.shape) * (1 if self.kind == _BYTES else self.kind & 0xFF) + 4 * self.is_quantised
        if needed > self.length:
            raise InputError(
                f"{self.name} of shape {self.shape} needs {needed} bytes, but has {self.length}; the file is damaged, "
                f"{_REMEDY}"
            )
        if self.kind in _ALIGNED and self.shape[0] % _ALIGNED[self.kind]:
            raise InputError(
                f"{self.name} has {self.shape[0]} rows, and Marian stores only multiples of {_ALIGNED[self.kind]} in "
                "integers completely; give the .npz"
            )


class _Bytes:
    """Reads numbers and texts of a file in order, and never beyond its end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, length: int, what: str) -> bytes:
        left = len(self.data) - self.place
        if length > left:
            raise InputError(
                f"is cut off: {what} needs {length} bytes at byte {self.place}, but {left} are left; {_REMEDY}"
            )
        self.place += length
        return self.data[self.place - length : self.place]

    def numbers(self, count: int, what: str, kind: str = "<u8") -> list[int]:
        found: list[int] = np.frombuffer(self.take(count * np.dtype(kind).itemsize, what), kind).tolist()
        return found


def _read_bin(data: bytes, path: Path) -> tuple[dict[str, np.ndarray], bool]:
    with naming(path):
        headers = _headers(_Bytes(data))
        for header in headers:
            header.check()
        arrays = {header.name: header.read(np.frombuffer(data, np.uint8)) for header in headers}
        if len(arrays) < len(headers):
            raise InputError(f"has two arrays of one name; the file is damaged, {_REMEDY}")
    return arrays, any(header.is_quantised for header in headers)


def _headers(file: _Bytes) -> list[_Array]:
    version, count = file.numbers(2, "its header")
    if version != _VERSION or count > _MOST_ARRAYS:
        raise InputError(f"is not a model of Marian: it begins with {version:#x}, expected {_VERSION}; give a model")
    heads = [file.numbers(4, f"the header of array {number}") for number in range(count)]
    names = []
    for length, _, dimensions, _ in heads:
        if not 1 < length <= _LONGEST_NAME or dimensions > _MOST_DIMENSIONS:
            raise InputError(f"the header of an array is damaged; {_REMEDY}")
        text = file.take(length, "the name of an array")
        names.append(text.rstrip(b"\0").decode("utf-8", "backslashreplace"))
    shapes = [tuple(file.numbers(head[2], f"the shape of array {number}", "<i4")) for number, head in enumerate(heads)]
    file.take(file.numbers(1, "its padding")[0], "its padding")
    arrays = []
    for name, shape, (_, kind, _, length) in zip(names, shapes, heads, strict=True):
        arrays.append(_Array(name, kind, shape, file.place, length))
        file.take(length, name)
    if file.place < len(file.data):
        raise InputError(f"has {len(file.data) - file.place} bytes after its last array; {_REMEDY}")
    return arrays


def read_shortlist(data: bytes, path: Path, source: Side, target: Side) -> Lexicon:
    """Return the lexicon of a shortlist with these bytes, which were read from ``path``, in fairseq's numbers."""
    header = np.frombuffer(data, "<u8", min(_HEADER, len(data) // 8)).tolist()
    if len(header) < _HEADER or header[0] != _SHORTLIST:
        raise InputError(f"{path}: is not a shortlist of Marian; {_OR_REMOVE}")
    frequent, offsets, words = header[2], header[4], header[5]
    needed = 8 * (_HEADER + offsets) + 4 * words
    if needed != len(data):
        raise InputError(f"{path}: has {len(data)} bytes, but its header says {needed}; {_OR_REMOVE}")
    starts = np.frombuffer(data, "<u8", offsets, 8 * _HEADER).astype(np.int64)
    targets = np.frombuffer(data, "<u4", words, 8 * (_HEADER + offsets))
    sizes = len(source.symbols), len(target.symbols)
    if offsets != sizes[0] + 1 or frequent > sizes[1] or (words and int(targets.max()) >= sizes[1]):
        raise InputError(f"{path}: does not fit the vocabularies of {sizes[0]} and {sizes[1]} symbols; {_OR_REMOVE}")
    if starts[0] != 0 or starts[-1] != words or (starts[1:] < starts[:-1]).any():
        raise InputError(f"{path}: its offsets are not ascending; {_OR_REMOVE}")
    ours = [_numbers(side) for side in (source, target)]
    sources = np.repeat(np.arange(sizes[0]), np.diff(starts))
    return Lexicon.of_links(ours[0][sources], ours[1][targets], ours[1][:frequent])


def _numbers(side: Side) -> np.ndarray:
    """Return fairseq's number of each of the model's symbols."""
    ours = {theirs: number for number, theirs in enumerate(side.order())}
    return np.array([ours[number] for number in range(len(side.symbols))])

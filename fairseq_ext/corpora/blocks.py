"""An imported corpus on disk: two plain files of canonical lines, and an index to read any block of them.

A block is what a parallel worker takes, found by seeking: ``BLOCK_PAIRS`` pairs, or fewer where lines are so long that
these would have more than ``BLOCK_BYTES``; the last one may be smaller.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Self

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import read_json

BLOCK_PAIRS = 20_000
# Of both sides together; a single pair may have more. 20,000 pairs of ordinary sentences have some 5 MB.
BLOCK_BYTES = 32 << 20
_Count = Annotated[int, Field(ge=0)]


@with_config(ConfigDict(strict=True))
class CorpusIndex(TypedDict):
    """What is known of an imported domain.

    Attributes:
        block: pairs a block at most.
        first_pairs: for each block, the number of its first pair, counted from 0.
        offsets: for each block, the bytes in the source and in the target file where it begins.
        tally: what import read, left out and mended; see :mod:`fairseq_ext.corpora.import_corpora`.
    """

    block: int
    first_pairs: list[_Count]
    offsets: list[Annotated[list[_Count], Field(min_length=2, max_length=2)]]
    pairs: _Count
    tally: dict[str, _Count]


_INDEX = TypeAdapter(CorpusIndex)


def index_path(folder: Path, name: str) -> Path:
    """Where a domain's index lies; its two dots keep a domain ``step`` from a step's own ``step.json``."""
    return folder / f"{name}.index.json"


def load_index(folder: Path, name: str) -> CorpusIndex:
    """Read a domain's index."""
    path = index_path(folder, name)
    try:
        index = _INDEX.validate_python(read_json(path, "import it again"))
    except ValidationError as error:
        raise InputError(f"{path}: {error.errors()[0]['msg']}; import the corpus again") from None
    if index["block"] != BLOCK_PAIRS or len(index["first_pairs"]) != len(index["offsets"]):
        raise InputError(f"{path}: was written for blocks of another size; import the corpus again")
    return index


def num_blocks(index: CorpusIndex) -> int:
    """How many blocks a domain has."""
    return len(index["offsets"])


def read_block(folder: Path, name: str, langs: tuple[str, str], number: int) -> list[Pair]:
    """Read the pairs of one block, counted from 0."""
    index = load_index(folder, name)
    first_pairs = [*index["first_pairs"], index["pairs"]]
    offsets = [*index["offsets"], None]
    start, end = index["offsets"][number], offsets[number + 1]
    sides = []
    for side, lang in enumerate(langs):
        path = folder / f"{name}.{lang}"
        with path.open("rb") as file:
            file.seek(start[side])
            data = file.read(end[side] - start[side] if end else -1)
        sides.append(data.decode("utf-8").removesuffix("\n").split("\n"))
        if len(sides[side]) != first_pairs[number + 1] - first_pairs[number]:
            raise InputError(f"{path}: was changed after its import; import it again")
    return [Pair(*pair) for pair in zip(*sides, strict=True)]


class CorpusWriter:
    """Writes a domain's two files ``NAME.LANG`` pair by pair, and its index at the end."""

    def __init__(self, folder: Path, name: str, langs: tuple[str, str]) -> None:
        self._index_path = index_path(folder, name)
        self._paths = [folder / f"{name}.{lang}" for lang in langs]
        self._offsets: list[list[int]] = []
        self._first_pairs: list[int] = []
        self._stack = ExitStack()
        self.pairs = 0
        # Of the block begun last: none yet.
        self._end_pair = 0
        self._free_bytes = 0

    def __enter__(self) -> Self:
        self._source, self._target = (self._stack.enter_context(path.open("wb")) for path in self._paths)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(self, pairs: Iterable[Pair]) -> int:
        """Append pairs, and return how many of them have text on both sides."""
        with_text = 0
        for source, target in pairs:
            lines = f"{source}\n".encode(), f"{target}\n".encode()
            num_bytes = len(lines[0]) + len(lines[1])
            if self.pairs == self._end_pair or self._free_bytes < num_bytes:
                self._begin_block()
            self._source.write(lines[0])
            self._target.write(lines[1])
            with_text += bool(source and target)
            self._free_bytes -= num_bytes
            self.pairs += 1
        return with_text

    def write_index(self, tally: Mapping[str, int]) -> CorpusIndex:
        """Write the index with what import counted, and return it."""
        index = CorpusIndex(
            block=BLOCK_PAIRS,
            first_pairs=self._first_pairs,
            offsets=self._offsets,
            pairs=self.pairs,
            tally={key: count for key, count in sorted(tally.items()) if count},
        )
        self._index_path.write_text(json.dumps(index) + "\n", encoding="utf-8")
        return index

    def _begin_block(self) -> None:
        self._first_pairs.append(self.pairs)
        self._offsets.append([self._source.tell(), self._target.tell()])
        self._end_pair = self.pairs + BLOCK_PAIRS
        self._free_bytes = BLOCK_BYTES

"""An imported corpus on disk: two plain files of canonical lines, and an index to read any block of them.

A block is what a parallel worker takes, found by seeking: ``BLOCK_PAIRS`` pairs, or fewer where lines are so long that
these would have more than ``BLOCK_BYTES``; the last one may be smaller.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, TypeGuard, cast

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.json_file import read_json

BLOCK_PAIRS = 20_000
# Of both sides together; a single pair may have more. 20,000 pairs of ordinary sentences have some 5 MB.
BLOCK_BYTES = 32 << 20


class CorpusIndex(TypedDict):
    """What is known of an imported domain, and its file's keys.

    Attributes:
        block: pairs a block at most.
        first_pairs: for each block, the number of its first pair, counted from 0.
        offsets: for each block, the bytes in the source and in the target file where it begins.
        pairs: N.
        tally: what import read, left out and mended; see :mod:`fairseq_ext.corpora.import_corpora`.
    """

    block: int
    first_pairs: list[int]
    offsets: list[list[int]]
    pairs: int
    tally: dict[str, int]


def index_path(folder: Path, name: str) -> Path:
    """Where a domain's index lies; its two dots keep a domain ``step`` from a step's own ``step.json``."""
    return folder / f"{name}.index.json"


def load_index(folder: Path, name: str) -> CorpusIndex:
    """Read a domain's index.

    Raises:
        InputError: if it is missing, or was written for blocks of another size or by an earlier version.
    """
    path = index_path(folder, name)
    content = read_json(path, "import it again")
    if problem := _problem_of(content):
        raise InputError(f"{path}: is no index of an imported corpus ({problem}); import it again")
    return cast(CorpusIndex, content)


def num_blocks(index: CorpusIndex) -> int:
    """How many blocks a domain has."""
    return len(index["offsets"])


def first_pair(index: CorpusIndex, number: int) -> int:
    """The number of a block's first pair; both count from 0."""
    return index["first_pairs"][number]


def read_block(folder: Path, name: str, langs: tuple[str, str], number: int) -> list[Pair]:
    """Read the pairs of one block, counted from 0.

    Raises:
        InputError: if the files are not those that the index was written for.
    """
    index = load_index(folder, name)
    start = index["offsets"][number]
    is_last = number + 1 == num_blocks(index)
    end = None if is_last else index["offsets"][number + 1]
    expected = (index["pairs"] if is_last else first_pair(index, number + 1)) - first_pair(index, number)
    sides = []
    for side, lang in enumerate(langs):
        path = folder / f"{name}.{lang}"
        with path.open("rb") as file:
            file.seek(start[side])
            data = file.read(end[side] - start[side] if end else -1)
        sides.append(data.decode("utf-8").removesuffix("\n").split("\n"))
        if len(sides[side]) != expected:
            raise InputError(f"{path}: was changed after its import; import it again")
    return [Pair(*pair) for pair in zip(*sides, strict=True)]


class CorpusWriter:
    """Writes a domain's two files pair by pair, and its index at the end.

    Args:
        folder: where to write.
        name: the domain.
        langs: source and target language, which end the files' names.
    """

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def write(self, pairs: Iterable[Pair]) -> int:
        """Append pairs, and return how many of them have text on both sides."""
        write_source, write_target = self._source.write, self._target.write
        with_text = 0
        for source, target in pairs:
            lines = f"{source}\n".encode(), f"{target}\n".encode()
            num_bytes = len(lines[0]) + len(lines[1])
            if self.pairs == self._end_pair or self._free_bytes < num_bytes:
                self._begin_block()
            write_source(lines[0])
            write_target(lines[1])
            with_text += bool(source and target)
            self._free_bytes -= num_bytes
            self.pairs += 1
        return with_text

    def write_index(self, tally: Mapping[str, int]) -> CorpusIndex:
        """Write the index with what import counted, and return it."""
        counts = {key: count for key, count in sorted(tally.items()) if count}
        index = CorpusIndex(
            block=BLOCK_PAIRS,
            first_pairs=self._first_pairs,
            offsets=self._offsets,
            pairs=self.pairs,
            tally=counts,
        )
        self._index_path.write_text(json.dumps(index) + "\n", encoding="utf-8")
        return index

    def _begin_block(self) -> None:
        self._first_pairs.append(self.pairs)
        self._offsets.append([self._source.tell(), self._target.tell()])
        self._end_pair = self.pairs + BLOCK_PAIRS
        self._free_bytes = BLOCK_BYTES


def _problem_of(content: Mapping[str, Any]) -> str | None:
    """What is wrong with what should be a :class:`CorpusIndex`."""
    block, first_pairs, offsets, tally = (content.get(key) for key in ("block", "first_pairs", "offsets", "tally"))
    if block != BLOCK_PAIRS:
        return f"its blocks have {shown(block)} pairs"
    if not _are_counts(first_pairs) or not isinstance(offsets, list) or len(first_pairs) != len(offsets):
        return "its lists of blocks differ in length"
    counts = tally.values() if isinstance(tally, dict) else [None]
    if not all(map(_are_counts, offsets)) or not _are_counts([content.get("pairs"), *counts]):
        return "it holds something else than numbers"
    return None


def _are_counts(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(count) is int and count >= 0 for count in value)

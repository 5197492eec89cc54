"""An imported corpus on disk: two plain files of canonical lines, and an index of their blocks.

Parallel workers process one block at a time. A block has ``BLOCK_PAIRS`` pairs, or fewer if these would exceed
``BLOCK_BYTES``. The last block may be smaller.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.json_file import read_typed
from fairseq_ext.text.text_files import Pair

BLOCK_PAIRS = 20_000
# Limit for both sides together; a single pair may be larger. 20,000 pairs of ordinary sentences have about 5 MB.
BLOCK_BYTES = 32 << 20
_Count = Annotated[int, Field(ge=0)]


@with_config(ConfigDict(strict=True))
class CorpusIndex(TypedDict):
    """Index of an imported domain.

    Attributes:
        block: maximum number of pairs per block.
        first_pairs: for each block, the number of its first pair, counted from 0.
        offsets: for each block, the byte offsets of its start in the source and the target file.
        tally: counts of lines read, dropped and repaired; see :mod:`fairseq_ext.text.import_corpora`.
    """

    block: int
    first_pairs: list[_Count]
    offsets: list[Annotated[list[_Count], Field(min_length=2, max_length=2)]]
    pairs: _Count
    tally: dict[str, _Count]


def index_path(folder: Path, name: str) -> Path:
    """Return the path of a domain's index; the second dot keeps a domain ``step`` apart from ``step.json``."""
    return folder / f"{name}.index.json"


def load_index(folder: Path, name: str) -> CorpusIndex:
    """Read a domain's index."""
    path = index_path(folder, name)
    index = read_typed(path, CorpusIndex, "import the corpus again")
    if len(index["first_pairs"]) != len(index["offsets"]):
        raise InputError(f"{path}: is damaged; import the corpus again")
    return index


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
            raise InputError(f"{path}: was changed after the import; import the corpus again")
    return [Pair(*pair) for pair in zip(*sides, strict=True)]


def write_corpus(
    folder: Path, name: str, langs: tuple[str, str], pairs: Iterable[Pair], tally: Mapping[str, int]
) -> CorpusIndex:
    """Write a domain's two files ``NAME.LANG`` and its index; ``tally`` is read after the last pair."""
    first_pairs: list[int] = []
    offsets: list[list[int]] = []
    # end_pair and free_bytes describe the current block; there is none yet.
    num_pairs = end_pair = free_bytes = 0
    with (folder / f"{name}.{langs[0]}").open("wb") as sources, (folder / f"{name}.{langs[1]}").open("wb") as targets:
        for source, target in pairs:
            lines = f"{source}\n".encode(), f"{target}\n".encode()
            num_bytes = len(lines[0]) + len(lines[1])
            if num_pairs == end_pair or free_bytes < num_bytes:
                first_pairs.append(num_pairs)
                offsets.append([sources.tell(), targets.tell()])
                end_pair, free_bytes = num_pairs + BLOCK_PAIRS, BLOCK_BYTES
            sources.write(lines[0])
            targets.write(lines[1])
            free_bytes -= num_bytes
            num_pairs += 1
    counted = {key: count for key, count in sorted(tally.items()) if count}
    index = CorpusIndex(block=BLOCK_PAIRS, first_pairs=first_pairs, offsets=offsets, pairs=num_pairs, tally=counted)
    index_path(folder, name).write_text(json.dumps(index) + "\n", encoding="utf-8")
    return index

"""Labelled sentences or sentence pairs from tables: .tsv or .csv with a header, or .jsonl with one object per line."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_ext.base.errors import InputError, shown
from fairseq_ext.base.json_file import json_row
from fairseq_ext.text.folded_text import BLANK
from fairseq_ext.text.raw_text import canonical
from fairseq_ext.text.text_files import stream_lines

# Special symbols of fairseq's dictionaries.
_RESERVED = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


class LabelledExample(NamedTuple):
    """A label (for regression, a number as text) with its one or two texts."""

    label: str
    texts: tuple[str, ...]


def read_examples(path: Path, label: str, texts: Sequence[str], *, is_number: bool = False) -> list[LabelledExample]:
    """Read the examples of a table in order, with canonical texts.

    Quotes have no meaning in a .tsv. In a .csv they have the usual meaning, and may enclose line feeds.

    Args:
        label: column of labels.
        texts: columns of texts.
        is_number: whether labels must be numbers (regression).
    """
    rows = TABLES[path.suffix](path)
    examples = [_example(row, label, texts, is_number, f"{path}, line {number}") for number, row in rows]
    if not examples:
        raise InputError(f"{path}: has no examples; add lines after the header")
    return examples


def _table_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a .csv or .tsv, each with the number of its last line."""
    if path.suffix == ".csv":
        reader = csv.reader((line + "\n" for line in stream_lines(path)), strict=True)
    else:
        lines = (line.removesuffix("\r") for line in stream_lines(path))
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    try:
        header = [name.strip() for name in next(reader)]
        for row in reader:
            if len(row) != len(header):
                raise csv.Error(f"{len(row)} columns, not the {len(header)} of the header")
            yield reader.line_num, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: cannot be read as a table ({error})") from None


def _jsonl_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(stream_lines(path), start=1):
        try:
            yield number, json_row(line)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: {error}") from None


TABLES = {".tsv": _table_rows, ".csv": _table_rows, ".jsonl": _jsonl_rows}


def _example(
    row: dict[str, Any], label_column: str, text_columns: Sequence[str], is_number: bool, where: str
) -> LabelledExample:
    columns = (label_column, *text_columns)
    for name in columns:
        if name not in row:
            raise InputError(
                f"{where}: column {name!r} is missing; set the task's keys label, text and text2 to columns "
                f"of the file: {', '.join(map(repr, row))}"
            )
        # In JSON, labels may be numbers; in other tables all values are text.
        kinds = str | int | float if name == label_column else str
        if not isinstance(row[name], kinds) or BLANK.fullmatch(str(row[name])):
            raise InputError(f"{where}: {name}: expected text, got {shown(row[name])}")
    label, *texts = (canonical(str(row[name]), Counter()) for name in columns)
    if is_number and not _is_number(label):
        raise InputError(f"{where}: {label_column}: {label!r} is not a number; for classes, set kind: classification")
    if not is_number and (" " in label or label in _RESERVED):
        allowed = f"use a single word other than {', '.join(_RESERVED)}"
        raise InputError(f"{where}: {label_column}: {label!r} cannot be a label; {allowed}")
    return LabelledExample(label, tuple(texts))


def _is_number(label: str) -> bool:
    try:
        return math.isfinite(float(label))
    except ValueError:
        return False

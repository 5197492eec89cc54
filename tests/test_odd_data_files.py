"""Whatever a data file holds, its reader takes it or says one line, in bounded time.

Values of JSON are changed, and bytes of all. The variable ``ODD_FILES`` says how many files are tried.
"""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.base.domain_tree import names_of_paths, read_tree, single_tree
from fairseq_ext.base.errors import InputError, line_of
from fairseq_ext.classifiers.task_split import read_task_facts
from fairseq_ext.data.word_vectors import read_word_vectors
from fairseq_ext.experiments.hierarchy.induce_tree import read_induction
from fairseq_ext.experiments.metrics.comparison import read_comparisons
from fairseq_ext.text.blocks import load_index
from tests.experiments.small_lm_experiment import TREE
from tests.odd_files import LONGEST_LINE, changed, time_limit

pytestmark = pytest.mark.slow
EXAMPLES = int(os.environ.get("ODD_FILES", "200")) // 4  # of each file and kind of change

COMPARISON = {"system": "gad", "baseline": "mix", "metric": "chrF", "domain": "all", "difference": 0.5}
INDEX = {"block": 20000, "first_pairs": [0, 20000], "offsets": [[0, 9], [0, 9]], "pairs": 20001, "tally": {"lines": 3}}
FACTS = {"kind": "classification", "labels": ["a", "b"], "num_inputs": 1, "counts": {"train": 9}, "removed": {}}
FIT = {"explained": 0.5, "iterations": 3, "has_converged": True}
RECORD = {"options": {"tokens": 4}, "clusters": [{"leaf": "a", "domains": ["a"]}], "empty": [], "fit": FIT}


FILES: dict[str, tuple[Any, str, Callable[[Path], Any]]] = {
    "tree": (TREE, "tree.json", read_tree),
    "paths": ({"a": ["b", "c"]}, "paths.json", lambda path: names_of_paths(str(path), single_tree("b"), "a")),
    "task": (FACTS, "task.json", lambda path: read_task_facts(path.parent)),
    "index": (INDEX, "a.index.json", lambda path: load_index(path.parent, "a")),
    "induction": (RECORD, "clusters.json", lambda path: read_induction(path.parent)),
    "comparisons": (COMPARISON, "comparisons.jsonl", read_comparisons),
    "glove": (b"the 0.5 1 2\na 1 2 3\n", "v.txt", read_word_vectors),
    "binary": (b"2 1\nthe \0\0\0?\na \0\0\0?\n", "v.bin", read_word_vectors),
}

_ODD = [
    *("null", "true", "0", "-1", "1.5", "1e400", "NaN", "-Infinity", "9" * 400, "9" * 5000, '""', '"a b"', '"\\ud800"'),
    *("[]", "{}", "[[]]", "[null]", "[1]", '["a"]', '{"a": 1}', '{"a": {"a": []}}', "[" * 100_000),
    *("[" * 900 + "]" * 900, "-1e5"),
    *('"\\u0000"', '"\\n"', '"' + "x" * 5000 + '"', "'a'", "", ",", "}", "1e5", "20000", '{"a": 1, "a": 2}'),
]
_INSERTS = [b"9" * 5000, b"1e400", b"nan", b"|||", b"\n", b"\t", b" ", b"\0", b"\xff", b"[" * 5000]
_INSERTS += [b"", b"\x7f", b"a\xc3"]


@pytest.mark.parametrize("kind", FILES)
def test_odd_values_and_noise_are_taken_or_named_in_one_line(tmp_path: Path, kind: str) -> None:
    content, name, read = FILES[kind]
    is_json = not isinstance(content, bytes)
    text = json.dumps(content) if is_json else ""
    rng = random.Random(1)
    for _ in range(EXAMPLES):
        if is_json:
            odd = changed(json.loads(text), rng.choices(_ODD, k=rng.randint(1, 2)), rng)
            check(tmp_path / name, odd.encode("utf-8", "surrogatepass"), read)
        data = bytearray(text.encode() if is_json else content)
        for _ in range(rng.randint(1, 3)):
            start = rng.randrange(max(1, len(data)))
            data[start : start + rng.randint(0, 9)] = rng.choice(_INSERTS)
        check(tmp_path / name, bytes(data), read)


def check(path: Path, data: bytes, read: Callable[[Path], Any]) -> None:
    path.write_bytes(data)
    try:
        with time_limit():
            read(path)
    except InputError as error:
        line = line_of(error)
        assert line.isprintable()
        assert 0 < len(line) <= LONGEST_LINE
    assert path.read_bytes() == data

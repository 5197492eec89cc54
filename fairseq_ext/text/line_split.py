"""Held-out sets of running text: stretches of consecutive lines, so that a language model is tested on whole passages.

A held-out line may also occur elsewhere, in any domain. To keep the sets disjoint, lines of any test set are removed
from all validation and training sets, and lines of any validation set from all training sets. Lines are compared by
:func:`~fairseq_ext.text.folded_text.fold`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from pydantic import Field
from tqdm import tqdm

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.sections import LARGEST, Count, Section
from fairseq_ext.text.folded_text import fold
from fairseq_ext.text.split import SIZES_FILE, SPLITS, stable_hash
from fairseq_ext.text.text_files import count_lines, stream_lines, write_lines

# For each set, the sets whose lines are removed from it.
_COLUMNS = (*SPLITS, "repeated")
_BEFORE = {"test": (), "valid": ("test",), "train": ("test", "valid")}


class LanguageModelSplit(Section):
    """Sizes of the held-out sets, in lines per domain."""

    valid: Count = 1000
    test: Annotated[int, Field(ge=0, lt=LARGEST)] = 1000
    """0 (no test set) is only for data of classifiers."""
    stretch: Count = 50
    """Number of consecutive lines held out together."""


def text_path(folder: Path, name: str, role: str) -> Path:
    """Return the path of a domain's set."""
    return folder / name / f"{role}.txt"


def write_text_splits(
    folder: Path,
    texts: Mapping[str, Path],
    *,
    options: LanguageModelSplit,
    seed: int,
    elsewhere: Collection[str] = (),
) -> str:
    """Write ``DOMAIN/{train,valid,test}.txt``, and return a summary of the line counts.

    The held-out stretches are determined by the seed, the domain's name and their numbers. Test sets have exactly the
    requested size; other sets lose repeated lines (see the module docstring).

    The texts are read three times, line by line. Only held-out lines are kept in memory.

    Args:
        texts: path of each domain's text.
        elsewhere: folded lines of other tests, which are treated as test lines.
    """
    domains = {name: _choose(name, count_lines(path), options, seed) for name, path in sorted(texts.items())}
    keys: dict[str, set[str]] = {"test": set(elsewhere), "valid": set()}
    for name, roles in domains.items():
        for line, role in _with_roles(texts[name], roles, f"hold out {name}"):
            if role in keys:
                keys[role].add(fold(line))
    counts = {}
    for name, roles in domains.items():
        counts[name] = _write_domain(folder, name, texts[name], roles, keys)
        for role in SPLITS:
            if not counts[name][role] and (role != "test" or options.test):
                raise InputError(f"{name}: has no lines for {role}, since all repeat held-out lines; add text")
    write_lines(folder / SIZES_FILE, _sizes_table(counts))
    return _summary(counts)


def _choose(name: str, num_lines: int, options: LanguageModelSplit, seed: int) -> dict[int, str]:
    """Draw a domain's held-out stretches, and return the set of each of their lines, by line number from 0.

    Stretch i starts at line i·length. The last stretch of a set is shortened to the requested size.
    """
    sizes = {"test": options.test, "valid": options.valid}
    needed = {role: -(-size // options.stretch) for role, size in sizes.items()}
    numbers = range(num_lines // options.stretch)
    if len(numbers) < sum(needed.values()) or num_lines <= sum(sizes.values()):
        raise InputError(
            f"{name}: {num_lines} lines are too few for {options.valid} + {options.test} held-out lines in stretches "
            f"of {options.stretch} and training; lower split.valid, split.test or split.stretch, or add text"
        )
    drawn = iter(sorted(numbers, key=lambda number: (stable_hash(seed, name, str(number)), number)))
    roles: dict[int, str] = {}
    for role, size in sizes.items():
        for start in range(0, size, options.stretch):
            first = next(drawn) * options.stretch
            roles |= dict.fromkeys(range(first, first + min(options.stretch, size - start)), role)
    return roles


def _write_domain(
    folder: Path, name: str, text: Path, roles: Mapping[int, str], keys: Mapping[str, Collection[str]]
) -> Counter[str]:
    """Write a domain's sets, and return the numbers of their lines and of removed lines."""
    counts: Counter[str] = Counter()
    (folder / name).mkdir()
    with ExitStack() as stack:
        files = {
            role: stack.enter_context(text_path(folder, name, role).open("w", encoding="utf-8", newline="\n"))
            for role in SPLITS
        }
        for line, role in _with_roles(text, roles, f"split {name}"):
            if any(fold(line) in keys[other] for other in _BEFORE[role]):
                counts["repeated"] += 1
            else:
                counts[role] += 1
                files[role].write(line + "\n")
    return counts


def _with_roles(text: Path, roles: Mapping[int, str], label: str) -> Iterator[tuple[str, str]]:
    """Yield each line with its set; lines that are not held out are training lines."""
    lines = tqdm(stream_lines(text), desc=label, unit=" lines", unit_scale=True, leave=False, disable=None)
    return ((line, roles.get(number, "train")) for number, line in enumerate(lines))


def _sizes_table(counts: Mapping[str, Counter[str]]) -> list[str]:
    rows = [f"{name:<24}" + "".join(f"{count[column]:>10}" for column in _COLUMNS) for name, count in counts.items()]
    return [f"{'domain':<24}" + "".join(f"{column:>10}" for column in _COLUMNS), *rows]


def _summary(counts: Mapping[str, Counter[str]]) -> str:
    total = sum(counts.values(), Counter[str]())
    told = ", ".join(f"{total[column]:,} {column}" for column in _COLUMNS)
    return f"{told} lines of {len(counts)} domains"

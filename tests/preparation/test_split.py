"""Held-out sets: exact sizes, no leak between any two domains, the same whatever the order of lines."""

import random
from pathlib import Path

import pytest

from fairseq_ext.errors import InputError
from fairseq_ext.preparation.config import Split
from fairseq_ext.preparation.corpora import Pair
from fairseq_ext.preparation.split import (
    DomainSplit,
    check_splits,
    normalise_source,
    split_corpora,
    write_splits,
)

OPTIONS = Split(valid=20, test=30, max_words=10)


def words(number: int) -> str:
    """A number written in letters, since digits are equalled."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def make_corpora() -> dict[str, list[Pair]]:
    """Three domains; 60 of their 200 sources are common to all, differing in case and spacing."""
    common = [f"common {words(n)}" for n in range(60)]
    disguises = {"a": str.lower, "b": str.upper, "c": str.title}
    return {
        name: [Pair(disguise(text), f"{name} {text}") for text in common]
        + [Pair(f"{name} only {words(n)}", f"nur {n}") for n in range(140)]
        for name, disguise in disguises.items()
    }


def sources(splits: dict[str, DomainSplit], role: str) -> set[str]:
    return {normalise_source(pair.source) for split in splits.values() for pair in getattr(split, role)}


@pytest.mark.parametrize("seed", range(5))
def test_nothing_held_out_is_known_in_any_domain(seed: int) -> None:
    splits = split_corpora(make_corpora(), OPTIONS, seed)
    train, valid, test = (sources(splits, role) for role in ("train", "valid", "test"))
    assert not train & valid
    assert not train & test
    assert not valid & test
    assert train | valid | test == {normalise_source(p.source) for pairs in make_corpora().values() for p in pairs}
    for split in splits.values():
        assert len({normalise_source(pair.source) for pair in split.valid}) == len(split.valid) == 20
        assert len({normalise_source(pair.source) for pair in split.test}) == len(split.test) == 30
        assert len(split.train) + 50 + split.shared == 200
    assert sum(split.shared for split in splits.values()) > 0


def test_order_of_lines_changes_no_choice() -> None:
    corpora = make_corpora()
    shuffled = {name: random.Random(3).sample(pairs, len(pairs)) for name, pairs in reversed(corpora.items())}
    one, other = split_corpora(corpora, OPTIONS, 1), split_corpora(shuffled, OPTIONS, 1)
    for name in corpora:
        assert (one[name].valid, one[name].test) == (other[name].valid, other[name].test)
        assert sorted(one[name].train) == sorted(other[name].train)
    assert split_corpora(corpora, OPTIONS, 2)["a"].test != one["a"].test


def test_repeated_sources_are_not_favoured() -> None:
    corpora = make_corpora()
    repeated = {**corpora, "a": corpora["a"] + [corpora["a"][0]] * 5000}
    assert split_corpora(repeated, OPTIONS, 1)["a"].test == split_corpora(corpora, OPTIONS, 1)["a"].test


def test_long_sentences_are_left_out() -> None:
    corpora = {"a": [*make_corpora()["a"], Pair("long " * 11, "kurz"), Pair("short", "lang " * 11)]}
    split = split_corpora(corpora, OPTIONS, 1)["a"]
    assert split.too_long == 2
    assert all(len(text.split()) <= 10 for pair in split.train + split.valid + split.test for text in pair)


def test_too_few_sources_is_an_input_error() -> None:
    few = {"a": [Pair(f"text {words(n)}", "Text") for n in range(49)] * 3}
    with pytest.raises(InputError, match=r"a: 49 different sources are too few for 20 \+ 30"):
        split_corpora(few, OPTIONS, 1)
    with pytest.raises(InputError, match=r"a: nothing is left to train on"):
        split_corpora({"a": [Pair(f"text {words(n)}", "Text") for n in range(50)]}, OPTIONS, 1)


def test_sources_that_differ_in_form_only_are_one() -> None:
    forms = ("Save 1 File", "save  22 file", "\uff33ave 3 \ufb01le", "SAVE 4 FILE")
    assert {normalise_source(form) for form in forms} == {"save 0 file"}
    assert normalise_source("Straße") == normalise_source("STRASSE")


def test_written_sets_are_checked(tmp_path: Path) -> None:
    files = {}
    for name, pairs in make_corpora().items():
        files[name] = (tmp_path / f"{name}.en", tmp_path / f"{name}.de")
        for side, path in enumerate(files[name]):
            path.write_text("".join(pair[side] + "\n" for pair in pairs))
    folder = tmp_path / "splits"
    write_splits(folder, files, ("en", "de"), options=OPTIONS, seed=1)
    assert (folder / "domains.txt").read_text() == "a\nb\nc\n"
    leaked = (folder / "a" / "test.en").read_text().splitlines()[0]
    with (folder / "c" / "train.en").open("a") as en, (folder / "c" / "train.de").open("a") as de:
        en.write(leaked.upper() + "\n")
        de.write("verraten\n")
    with pytest.raises(RuntimeError, match="is in both train and test"):
        check_splits(folder, ("en", "de"), OPTIONS)

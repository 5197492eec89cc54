"""Held-out sets: exact sizes, no leak between any two domains, the same whatever the order of lines."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.split import HELD_OUT, SIZES_FILE, SPLITS, Split, normalise_source, write_splits
from fairseq_ext.text.text_files import Pair, read_lines, stream_parallel, write_parallel

OPTIONS = Split(valid=20, test=30, max_words=10)
LANGS = ("en", "de")
Corpora = Mapping[str, Sequence[Pair]]
Splits = dict[str, dict[str, list[Pair]]]


def words(number: int) -> str:
    """A number written in letters, since digits are equalled."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def random_corpora(seed: int) -> dict[str, list[Pair]]:
    """Three domains of 600 pairs with repeated pairs, sources that differ in form only, within and across domains."""
    rng = random.Random(seed)

    def source() -> str:
        text = " ".join(
            rng.choice(("file", "Straße", "\uff33ave", "x", "№", "\u200bfi\u00adle")) for _ in range(rng.randint(1, 6))
        )
        return rng.choice((str.lower, str.upper, str))(f"{text} {words(rng.randrange(40))} {rng.randrange(100)}")

    return {
        name: [Pair(source(), f"{rng.randrange(3)} {rng.choice('äöü')} wort" * rng.randint(1, 3)) for _ in range(600)]
        for name in ("c", "a", "b")
    }


def split(folder: Path, corpora: Corpora, seed: int) -> Splits:
    """Write the corpora below ``folder``, split them and read the sets by domain and role."""
    files = {name: (folder / f"{name}.en", folder / f"{name}.de") for name in corpora}
    for name, pairs in corpora.items():
        write_parallel(*files[name], pairs)
    write_splits(folder / "splits", files, LANGS, options=OPTIONS, seed=seed)

    def read(name: str, role: str) -> list[Pair]:
        return list(stream_parallel(*(folder / "splits" / name / f"{role}.{lang}" for lang in LANGS)))

    return {name: {role: read(name, role) for role in SPLITS} for name in sorted(corpora)}


def sources(splits: Splits, role: str) -> set[str]:
    return {normalise_source(pair.source) for sets in splits.values() for pair in sets[role]}


@pytest.mark.parametrize("seed", range(3))
def test_nothing_held_out_is_known_and_the_order_of_lines_does_not_matter(seed: int, tmp_path: Path) -> None:
    corpora = random_corpora(seed)
    splits = split(tmp_path / "once", corpora, seed)
    again = split(tmp_path / "again", {name: random.Random(1).sample(corpora[name], 600) for name in "bca"}, seed)
    train, valid, test = (sources(splits, role) for role in SPLITS)
    assert not train & valid
    assert not train & test
    assert not valid & test
    assert read_lines(tmp_path / "once" / "splits" / "domains.txt") == ["a", "b", "c"]
    for name, pairs in corpora.items():
        assert {role: splits[name][role] for role in HELD_OUT} == {role: again[name][role] for role in HELD_OUT}
        for role, size in (("valid", 20), ("test", 30)):
            assert (
                len({normalise_source(pair.source) for pair in splits[name][role]}) == len(splits[name][role]) == size
            )
        assert all(len(sets) > 50 for sets in (splits[name]["train"], again[name]["train"]))
        order = iter(pairs)
        assert all(pair in order for pair in splits[name]["train"])
    # The table says where the others are: too long, or held out elsewhere.
    for line in read_lines(tmp_path / "once" / "splits" / SIZES_FILE)[1:]:
        name, *counts = line.split()
        assert [int(count) for count in counts[:3]] == [len(splits[name][role]) for role in SPLITS]
        assert sum(map(int, counts)) == 600


def test_a_source_of_two_domains_is_held_out_in_both(tmp_path: Path) -> None:
    """Test sets of all domains then have the domains' own translations of it."""
    texts = [f"text {words(number)}" for number in range(100)]
    splits = split(tmp_path, {name: [Pair(text, f"{name} {text}") for text in texts] for name in "ab"}, 1)
    for role in HELD_OUT:
        of_a, of_b = ([pair.source for pair in splits[name][role]] for name in "ab")
        assert of_a == of_b


def test_long_sentences_are_left_out_and_enough_others_needed(tmp_path: Path) -> None:
    few = [Pair(f"text {words(n)}", "Text") for n in range(51)]
    long = [Pair("long" + " long" * 10, "kurz"), Pair("short", "lang" + " lang" * 10)]
    sets = split(tmp_path, {"a": [*few[1:], *long, Pair("ten" + " words" * 9, "zehn")]}, 1)["a"]
    assert all(len(text.split()) <= 10 for pairs in sets.values() for pair in pairs for text in pair)
    assert read_lines(tmp_path / "splits" / SIZES_FILE)[1].split() == ["a", "1", "20", "30", "2", "0"]
    for pairs in (few[:49] * 3, few[:50]):
        with pytest.raises(InputError, match="a: "):
            split(tmp_path, {"a": pairs}, 1)


def test_sources_that_differ_in_form_only_are_one() -> None:
    forms = ("Save 1 File", "save  22 file", "\uff33ave 3 \ufb01le", "SAVE 4 FILE", " save\t\u0665\x1cfile\n")
    assert {normalise_source(form) for form in forms} == {"save 0 file"}
    assert normalise_source("Straße") == normalise_source("STRASSE")
    unseen = ("\ufeffSave 1 file", "Sa\u00adve 1 fi\u2060le\ufe0f", "Save \u200b1\u200e file\x7f", "save 1\u00ad2 file")
    assert {normalise_source(form) for form in unseen} == {"save 0 file"}

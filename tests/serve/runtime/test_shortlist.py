"""Translation with a shortlist: who needs which words, and that nothing else can be chosen."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.graphs import shortlists
from fairseq_ext.serve.graphs.exported import Parts, complete, writing
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.shortlist import Shortlist
from fairseq_ext.serve.runtime.terms import Glossary, Term
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.serve.runtime.vocabulary import Text
from fairseq_ext.text.lexicons import SHORTLIST_FILE, Lexicon, read_lexicons, write_lexicons
from tests import toy
from tests.serve.graphs import small_systems

LINES = ["w4 w5 w6", "w7 w8 w1", "w10 w2"]
NOTHING = np.array([], np.int64)


def with_lexicons(exported: Path, folder: Path, lexicons: dict[str, Lexicon]) -> SystemTranslator:
    """GAD with these lexicons."""
    shutil.copytree(exported / "gad", folder)
    write_lexicons(folder / SHORTLIST_FILE, lexicons)
    complete(folder, SystemTranslator.load(exported / "gad").manifest)
    return SystemTranslator.load(folder)


def number(text: Text, word: str) -> int:
    return text.vocabulary.target.index(word)


@pytest.fixture
def limited(exported: Path, tmp_path: Path) -> SystemTranslator:
    """The base may say w3, law w5 as well, and sub has no lexicon."""
    text = Text.read(exported / "gad", "pl")
    base, law = (Lexicon.of_links(NOTHING, NOTHING, np.array([number(text, word)])) for word in ("w3", "w5"))
    return with_lexicons(exported, tmp_path / "gad", {"base": base, "law": law, "med": law})


def words(translator: SystemTranslator, route: str, line: str = "w7 w8", **given: object) -> set[str]:
    [answer] = translator.translate([Request(line, route, **given)])  # type: ignore[arg-type]
    return {*answer.candidates[0].text.split()}


def test_words_are_those_of_the_lexicons_and_copies(limited: SystemTranslator, exported: Path) -> None:
    free = SystemTranslator.load(exported / "gad")
    assert words(limited, "base") <= {"w3", "w7", "w8"}
    assert words(limited, "law") <= {"w3", "w5", "w7", "w8"}
    assert not words(free, "base") <= {"w3", "w7", "w8"}
    # Without a lexicon of every domain that is used, all words may be said.
    for route in ("sub", "gates"):
        assert words(limited, route) == words(free, route)
    unlimited = SystemTranslator.load(exported / "gad", shortlist="none")
    assert words(unlimited, "base") == words(free, "base")


def test_prefixes_and_terms_need_their_words(limited: SystemTranslator) -> None:
    [question] = limited.reader.read([Request("w7 w8", "base", "w11")], str)
    assert number(limited.text, "w11") in {*limited._searches._output(question.sentences).tokens}
    assert "w11" in words(limited, "base", prefix="w11")
    limited.reader.terms = Glossary([Term("w8", ("w12 w13",))])
    assert {"w12", "w13"} <= words(limited, "base")


def test_a_batch_has_the_words_of_all_its_sentences(limited: SystemTranslator) -> None:
    shortlist, text = limited._searches._shortlist, limited.text
    assert isinstance(shortlist, Shortlist)
    sources = [text.encode(line, None) for line in LINES]
    found = shortlist.tokens(sources, ["law"], [number(text, "w14")])
    assert found is not None
    symbols = {text.vocabulary.target[token] for token in found}
    special = {text.vocabulary.target[token] for token in (1, 2, 3)}
    assert symbols == {*" ".join(LINES).split(), "w3", "w5", "w14", *special}
    assert sorted(found) == found.tolist()
    assert shortlist.tokens(sources, ["sub"], []) is None


def test_exports_count_the_lexicons_of_their_domains(
    systems: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortlists, "_MANY", 0)
    with writing(tmp_path / "ad") as folder:
        Parts(systems / "ad/model.pt", data).write(folder, small_systems.manifest("ad"))
    text = Text.read(tmp_path / "ad", "pl")
    sizes = len(text.vocabulary.source), len(text.vocabulary.target)
    assert [*read_lexicons(tmp_path / "ad" / SHORTLIST_FILE, sizes, "")] == ["base", *toy.DOMAINS]
    translator = SystemTranslator.load(tmp_path / "ad")
    assert translator._searches._shortlist is not None
    assert words(translator, "law")
    with pytest.raises(InputError, match="shortlist: 'some' is unknown; choose one of system, none"):
        SystemTranslator.load(tmp_path / "ad", shortlist="some")


def test_lexicons_of_other_domains_are_left_out(limited: SystemTranslator, tmp_path: Path) -> None:
    path, vocabulary = tmp_path / "gad" / SHORTLIST_FILE, limited.text.vocabulary
    shortlists.keep_lexicons(path.parent, vocabulary, ["law", "new"])
    assert [*read_lexicons(path, (len(vocabulary.source), len(vocabulary.target)), "")] == ["base", "law"]


def test_small_vocabularies_and_models_without_text_have_none(exported: Path, tmp_path: Path) -> None:
    assert not (exported / "ad" / SHORTLIST_FILE).exists()
    (tmp_path / "domains.txt").write_text("law\n")
    vocabulary = dataclasses.replace(Text.read(exported / "ad", "pl").vocabulary, target=["w"] * 5000)
    shortlists.write_shortlist(tmp_path, tmp_path, ("en", "pl"), vocabulary)
    assert [path.name for path in tmp_path.iterdir()] == ["domains.txt"]

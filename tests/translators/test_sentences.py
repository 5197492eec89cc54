import pytest

from fairseq_ext.translators.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        ("one", ["one"]),
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("He said: “Go.” Then … nothing (all.) 3.5 times", ["He said: “Go.”", "Then …", "nothing (all.)", "3.5 times"]),
        ("一。二！三", ["一。", "二！", "三"]),
        ("...", ["..."]),
    ],
)
def test_a_text_ends_its_sentences_where_a_reader_would(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences

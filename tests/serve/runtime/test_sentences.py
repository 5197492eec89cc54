import pytest

from fairseq_ext.serve.runtime.sentences import cut, split_sentences


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


@pytest.mark.parametrize(
    "text", ["one", "a b c d. e f g h, i j k l m n o p q r s t u v w, x y z!", "x" * 40, "", "a, " * 9]
)
@pytest.mark.parametrize("most", [2, 5, 8])
def test_parts_are_short_enough_and_leave_nothing_out(text: str, most: int) -> None:
    def count(part: str) -> int:
        return len(part.replace(" ", ""))

    parts = list(cut(text, most, count))
    assert [length for _, length in parts] == [count(part) for part, _ in parts]
    assert all(length <= most for _, length in parts)
    assert "".join(part for part, _ in parts).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a b c, d e f g h i. j k.", ["a b c,", "d e f g h", "i.", "j k."]),
        ("a, b c d e f g", ["a, b c d e", "f g"]),  # a part would be too short
    ],
)
def test_sentences_are_cut_after_commas(text: str, parts: list[str]) -> None:
    assert [part for part, _ in cut(text, 5, lambda part: len(part.split()))] == parts

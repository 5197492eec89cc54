"""Origin and licence of a base: in words, and as a file that is checked where it is read."""

from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.origin import ORIGIN_FILE, Origin, read_origin


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        (Origin("opus-mt-de-en"), "opus-mt-de-en; licence not stated"),
        (Origin("enpt", "Firefox", "MPL-2.0"), "Firefox: enpt; licence MPL-2.0"),
        (Origin("enpt", None, None, "fast==1", "MIT"), "enpt from fast==1; licence not stated (the package: MIT)"),
    ],
)
def test_origin_as_text_and_as_file(tmp_path: Path, origin: Origin, text: str) -> None:
    assert origin.text == text
    origin.write(tmp_path)
    assert read_origin(tmp_path) == origin


def test_a_missing_origin_is_none_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    assert read_origin(tmp_path) is None
    for content in ("{}", '{"model": 3}', '{"model": "x", "colour": "red"}', "[]"):
        (tmp_path / ORIGIN_FILE).write_text(content)
        with pytest.raises(InputError, match=f"{ORIGIN_FILE}: .*prepare the data again"):
            read_origin(tmp_path)

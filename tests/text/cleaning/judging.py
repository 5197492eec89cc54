"""Running a single filter in tests."""

from pathlib import Path

from fairseq_ext.text.cleaning.filters import Batch, Filter, run_filters
from fairseq_ext.text.text_files import Pair


def judge(
    criterion: Filter, *pairs: tuple[str, str], langs: tuple[str, str] = ("en", "pl"), learned: Path | None = None
) -> list[str | None]:
    """The reason for which each pair is dropped, None where it is kept."""
    _, rejected = run_filters({"it": criterion}, Batch([Pair(*pair) for pair in pairs], langs, learned))
    return [rejected[row][1] if row in rejected else None for row in range(len(pairs))]

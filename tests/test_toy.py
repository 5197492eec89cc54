"""The toy world's options are those of fairseq's commands."""

from __future__ import annotations

from pathlib import Path

from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from tests import toy


def test_options_are_composed_as_by_fairseq(tmp_path: Path) -> None:
    """Also where an earlier line had the same options with other values, which stays as it is."""
    first = toy.train_args(tmp_path)
    expected = toy.composed(first)
    words = ["--lr", "0.5", "--adam-betas", "(0.8, 0.9)", "--restore-file", "a b/c=d.pt", "--domain-tags", "--bf16"]
    other = toy.train_args(tmp_path / "other", *words, "--encoder-normalize-before")
    assert toy.composed(other) == convert_namespace_to_omegaconf(other)
    assert toy.composed(first) == expected != toy.composed(other)

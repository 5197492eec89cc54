from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.translation.decoding import decoding, write_hypotheses
from tests.recipes.translation.test_training import CONFIG, config_of

TRANSLATE = (
    CONFIG
    + """
translate:
  common: {{beam: 5}}
  outputs:
    mix: {{system: mix}}
    ad: {{system: mix, domain-source: classifier, beam: 2}}
"""
)
PRINTED = [
    "S-1\tb", "H-1\t-0.5\tB .", "D-1\t-0.5\tB.", "D-1\t-0.9\tsecond best", "P-1\t-0.1",
    "D-0\t-0.5\tA\twith a tab", "D-2\t-0.5\t",
]  # fmt: skip


def test_hypotheses_are_split_by_domain(tmp_path: Path) -> None:
    (tmp_path / "generate.txt").write_text("\n".join(PRINTED) + "\n")
    write_hypotheses(tmp_path, tmp_path / "generate.txt", {"law": 1, "med": 2}, "pl")
    assert (tmp_path / "law.pl").read_text() == "A\twith a tab\n"
    assert (tmp_path / "med.pl").read_text() == "B.\n\n"


def test_an_untranslated_sentence_is_named(tmp_path: Path) -> None:
    (tmp_path / "generate.txt").write_text("\n".join(PRINTED) + "\n")
    with pytest.raises(InputError, match="sentence 3 of med was not translated"):
        write_hypotheses(tmp_path, tmp_path / "generate.txt", {"law": 1, "med": 3}, "pl")


def made(root: Path, text: str, name: str) -> tuple[list[Path], list[str]]:
    """Inputs and arguments of a decoding run."""
    config = config_of(root, text)
    inputs, command = decoding(config, config.output_runs(name)[0])
    return inputs, list(command.arguments)


def test_systems_with_tags_are_translated_with_tags(tmp_path: Path) -> None:
    tagged = TRANSLATE.replace("mix: {{arch", "mix: {{domain-tags: true, arch")
    assert made(tmp_path, tagged, "ad")[1][-1] == "--domain-tags"
    explicit = tagged.replace("{{system: mix}}", "{{system: mix, domain-tags: true}}")
    assert made(tmp_path, explicit, "mix")[1].count("--domain-tags") == 1

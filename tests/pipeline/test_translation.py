from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.errors import InputError
from fairseq_ext.pipeline.examples import format_examples
from fairseq_ext.pipeline.translation import output_of, outputs_of, read_hypotheses, write_hypotheses
from tests.pipeline.test_training import CONFIG, config_of

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


def test_best_hypotheses_by_number() -> None:
    assert read_hypotheses(PRINTED) == {0: "A\twith a tab", 1: "B.", 2: ""}


def test_hypotheses_are_split_by_domain(tmp_path: Path) -> None:
    (tmp_path / "generate.txt").write_text("\n".join(PRINTED) + "\n")
    write_hypotheses(tmp_path, tmp_path / "generate.txt", {"law": 1, "med": 2}, "pl")
    assert (tmp_path / "law.pl").read_text() == "A\twith a tab\n"
    assert (tmp_path / "med.pl").read_text() == "B.\n\n"


def test_an_untranslated_sentence_is_named(tmp_path: Path) -> None:
    (tmp_path / "generate.txt").write_text("\n".join(PRINTED) + "\n")
    with pytest.raises(InputError, match="sentence 3 of domain med was not translated"):
        write_hypotheses(tmp_path, tmp_path / "generate.txt", {"law": 1, "med": 3}, "pl")


def test_outputs_inherit_and_know_what_they_need(tmp_path: Path) -> None:
    config = config_of(tmp_path, TRANSLATE)
    assert outputs_of(config)["ad"] == {"system": "mix", "domain-source": "classifier", "beam": 2}
    output = output_of(config, "ad")
    assert tmp_path / "teacher" in output.inputs
    assert tmp_path / "teacher" not in output_of(config, "mix").inputs
    assert output.arguments[-4:] == ["--beam", "2", "--domain-source", "classifier"]


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="outputs: ad: the key 'system' is missing"):
        outputs_of(config_of(tmp_path, TRANSLATE.replace("system: mix, domain", "sistem: mix, domain")))
    with pytest.raises(InputError, match="no 'gad'; there are mix, ad"):
        output_of(config_of(tmp_path, TRANSLATE), "gad")


def test_examples_show_the_largest_gates() -> None:
    printed = ["D-0\t-1\tJa", "G-0\tit=0.100 law=0.700 med=0.150 sub=0.050", "D-1\t-1\tNein"]
    assert format_examples(["Yes", "No"], printed) == (
        "  Yes  →  Ja\n          law 0.70 med 0.15 it 0.10\n  No   →  Nein\n"
    )

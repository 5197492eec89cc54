from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.translation.config import Translation
from fairseq_ext.recipes.translation.stages import (
    decoding,
    format_examples,
    read_hypotheses,
    translation_step,
    write_hypotheses,
)
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


def test_best_hypotheses_by_number() -> None:
    assert read_hypotheses(PRINTED) == {0: "A\twith a tab", 1: "B.", 2: ""}


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


def translation_steps(config: Translation, name: str) -> list[Step]:
    return [translation_step(config, run) for run in config.output_runs(name)]


def test_an_output_knows_what_it_needs(tmp_path: Path) -> None:
    inputs, arguments = made(tmp_path, TRANSLATE, "ad")
    assert tmp_path / "teacher" in inputs
    assert tmp_path / "teacher" not in made(tmp_path, TRANSLATE, "mix")[0]
    assert arguments[-4:] == ["--beam", "2", "--domain-source", "classifier"]


def test_systems_with_tags_are_translated_with_tags(tmp_path: Path) -> None:
    tagged = TRANSLATE.replace("mix: {{arch", "mix: {{domain-tags: true, arch")
    assert made(tmp_path, tagged, "ad")[1][-1] == "--domain-tags"
    explicit = tagged.replace("{{system: mix}}", "{{system: mix, domain-tags: true}}")
    assert made(tmp_path, explicit, "mix")[1].count("--domain-tags") == 1


def test_output_runs_have_directories_of_their_own(tmp_path: Path) -> None:
    seeded = config_of(tmp_path, TRANSLATE.replace("mix: {{arch", "mix: {{seeds: [1, 2], arch"))
    steps = translation_steps(seeded, "ad")
    assert [step.output for step in steps] == [tmp_path / "translations" / name for name in ("ad@1", "ad@2")]
    assert [step.inputs[1].parent.name for step in steps] == ["mix@1", "mix@2"]
    assert [step.output.name for step in translation_steps(seeded, "ad@2")] == ["ad@2"]
    (tmp_path / "data-bin").mkdir()
    (tmp_path / "data-bin/domains.txt").write_text("law\nmed\n")
    own = config_of(
        tmp_path, TRANSLATE.replace("mix: {{arch", "mix: {{per_domain: true, arch").replace("from: mix, ", "")
    )
    assert [step.options["domain"] for step in translation_steps(own, "mix")] == ["law", "med"]


def test_what_finished_translations_are_recognised_by_stays(tmp_path: Path) -> None:
    """Translations by earlier versions stay valid."""
    [step] = translation_steps(config_of(tmp_path, TRANSLATE), "ad")
    assert step.options == {"beam": 2, "system": "mix", "domain-source": "classifier", "extra": []}
    names = ["data-bin", "systems/mix/checkpoint_best.pt", "teacher", "splits"]
    assert step.inputs == [tmp_path / name for name in names]


def test_examples_show_the_largest_gates() -> None:
    printed = ["D-0\t-1\tJa", "G-0\tit=0.100 law=0.700 med=0.150 sub=0.050", "D-1\t-1\tNein"]
    assert format_examples(["Yes", "No"], printed) == (
        "  Yes  →  Ja\n          law 0.70 med 0.15 it 0.10\n  No   →  Nein\n"
    )

"""Stages, steps and verbs of an experiment: which there are, with which options, and what they make."""

import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.steps import print_plan, run_step
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.decoding import write_hypotheses
from fairseq_ext.experiments.translation.stages import TranslationRecipe
from fairseq_ext.text.text_files import read_lines, write_lines
from tests.small_corpus import write_config, write_corpora
from tests.verbs import verb

MIX = {"arch": "transformer_tiny"}
GAD = {"from": "mix", "uses_teacher": True, "arch": "transformer_gated_adapter_tiny"}


def experiment_file(root: Path, **changes: Any) -> Path:
    changes = {"train": {"systems": {"mix": MIX, "gad": GAD}}, **changes}
    return write_config(root / "c.yaml", write_corpora(root / "corpora"), **changes)


def test_mistakes_in_late_stages_are_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"NEWS: nowhere.en: not found"):
        verb("run")([str(experiment_file(tmp_path, evaluate={"ood": {"NEWS": "nowhere.{lang}"}})), "--to", "translate"])
    tests = {"MINE": {"corpus": "m.{lang}", "domain": "law"}}
    with pytest.raises(InputError, match="evaluate: tests: MINE: domain: 'law' is unknown"):
        verb("run")([str(experiment_file(tmp_path, evaluate={"tests": tests}))])
    assert not (tmp_path / "work").exists()


def test_one_domain_has_no_classifier_and_nothing_that_needs_one(tmp_path: Path) -> None:
    one = {"domains": {"bank": [f"{tmp_path / 'corpora'}/bank.{{lang}}"]}}
    ad = {"from": "mix", "arch": "transformer_domain_adapter_tiny"}

    def path(systems: dict[str, Any], **output: Any) -> str:
        outputs = {"mix": {"system": "mix", **output}}
        return str(experiment_file(tmp_path, corpora=one, train={"systems": systems}, translate={"outputs": outputs}))

    verb("run")([path({"mix": MIX, "ad": ad}), "--dry-run"])
    with pytest.raises(InputError, match="translate: outputs: mix: needs a domain classifier"):
        verb("run")([path({"mix": MIX}, **{"domain-source": "classifier"})])
    with pytest.raises(InputError, match="train: systems: gad: needs a domain classifier"):
        verb("run")([path({"mix": MIX, "gad": GAD})])
    assert not (tmp_path / "work").exists()


def test_options_of_a_command_line_count_for_that_run_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = load_config(experiment_file(tmp_path))
    (tmp_path / "work/data-bin").mkdir(parents=True)
    [step] = TranslationRecipe(config).train_from_start("mix", ["--fp16"])
    run_step(replace(step, build=lambda folder: (folder / "checkpoint_best.pt").touch()))
    print_plan(TranslationRecipe(config).train_from_start("mix", ["--fp16"]))
    print_plan(TranslationRecipe(config).train_from_start("mix"))
    assert capsys.readouterr().out.splitlines() == [
        f"up to date  {step.output}",
        f'build       {step.output} (command line was "--fp16", is "")',
    ]


def test_a_run_of_a_tuned_system_comes_after_the_trials_that_choose_for_it(tmp_path: Path) -> None:
    tuned = {**GAD, "seeds": [3, 4], "tune": {"lr": [1, 2]}}
    config = load_config(experiment_file(tmp_path, train={"systems": {"mix": MIX, "gad": tuned}}))
    steps = TranslationRecipe(config).train_from_start("gad@4", ["--bf16"])
    assert [step.output.name for step in steps] == ["mix", "gad.lr=1", "gad.lr=2", "gad@3", "gad@4"]
    _, one, two, _, last = steps
    assert [step.options["system"]["lr"] for step in (one, two)] == [1, 2]
    assert [step.options["extra"] for step in (one, two, last)] == [["--bf16"]] * 3
    # What the second seed is trained with is not known before.
    assert ("lr" in last.options["system"], last.inputs[-1].name) == (False, "chosen.json")
    assert [step.output.name for step in TranslationRecipe(config).train_from_start("gad")] == [
        step.output.name for step in steps
    ]


def test_hypotheses_are_split_by_domain_and_an_untranslated_sentence_is_named(tmp_path: Path) -> None:
    printed = tmp_path / "generate.txt"
    second = "S-1\tb\nH-1\t-0.5\tB .\nD-1\t-0.5\tB.\nD-1\t-0.9\tsecond best\nP-1\t-0.1\n"
    printed.write_text(f"{second}D-0\t-0.5\tA\twith a tab\nD-2\t-0.5\t\n")
    write_hypotheses(tmp_path, printed, {"law": 1, "med": 2}, "pl")
    assert (tmp_path / "law.pl").read_text() == "A\twith a tab\n"
    assert (tmp_path / "med.pl").read_text() == "B.\n\n"
    with pytest.raises(InputError, match="sentence 3 of med was not translated"):
        write_hypotheses(tmp_path, printed, {"law": 1, "med": 3}, "pl")


def test_subwords_of_others_are_taken_as_they_are(tmp_path: Path) -> None:
    def prepare(name: str, corpora: Path, **sections: Any) -> Path:
        (tmp_path / name).mkdir()
        verb("prepare")([str(write_config(tmp_path / name / "c.yaml", corpora, **sections)), "--workers", "1"])
        return tmp_path / name / "work"

    original, general = prepare("original", write_corpora(tmp_path / "corpora")), tmp_path / "general"
    for lang in ("en", "de"):
        write_lines(general / f"general.{lang}", read_lines(original / f"splits/bank/train.{lang}"))
    for key, taken in (("reuse", original / "subwords"), ("from", original / "subwords/sentencepiece.model")):
        work = prepare(key, general, subwords={key: str(taken)})
        assert (work / "subwords").exists() == (key == "from")
        for name in ("dict.en.txt", "dict.de.txt", "sentencepiece.model"):
            assert (work / "data-bin" / name).read_bytes() == (original / "data-bin" / name).read_bytes()
        assert (work / "data-bin/domains.txt").read_text() == "general\n"


def test_text_is_normalised_as_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def normalised(text: str, clean: dict[str, Any], *options: str) -> str:
        path, printed = experiment_file(tmp_path, clean=clean), io.BytesIO()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="utf-8", newline="", write_through=True))
        verb("normalise")([str(path), *options])
        return printed.getvalue().decode()

    text, clean = "„a“,  5 % …\n\nb\n", {"normalise": {}}
    assert normalised(text, {}) == "„a“, 5 % …\n\nb\n"
    assert normalised(text, clean) == '"a," 5% ...\n\nb\n'
    assert normalised(text, clean, "--lang", "de") == '"a", 5% ...\n\nb\n'
    # Text must not become a tag.
    clean = {"normalise": {"unicode": "NFKC", "punctuation": None}}
    with pytest.raises(InputError, match="^standard input, line 2: "):
        normalised("<domain:a> as it is\n＜domain:a＞ b\n", clean)

from __future__ import annotations

from pathlib import Path

from fairseq_ext.experiments.translation.output_runs import find_runs, read_translations
from fairseq_ext.experiments.translation.test_sets import TestSets as Sets

from tests.experiments.translation.small_experiment import NEWS, REFERENCES, write_experiment

OOD = {"ood": {"NEWS": "news.tsv"}}


def test_seeds_are_runs_and_domains_are_parts_of_one(tmp_path: Path) -> None:
    runs = find_runs(write_experiment(tmp_path, {}, {}))
    parts = {output: {run.name: [part.name for part in run.parts] for run in found} for output, found in runs.items()}
    assert parts == {
        "mix": {"mix": ["mix"]},
        "gad": {"gad@1": ["gad@1"], "gad@2": ["gad@2"]},
        "ft": {"ft": ["ft@law", "ft@med"]},
    }


def test_files_are_those_of_the_parts_that_have_been_made(tmp_path: Path) -> None:
    translations = {
        "translations/ft@med": {"med": REFERENCES["med"]},
        "translations/gad@2": REFERENCES,
        "extra/gad@2": {"NEWS": NEWS},
        "translations/.gad@2.step/unfinished": {"law": ["x"]},
        # What a run of another configuration left behind.
        "translations/gad": REFERENCES,
        "extra/ft@med": {"NEWS": NEWS},
    }
    config = write_experiment(tmp_path, translations, OOD)
    tests, runs, work = Sets.of(config, ["NEWS"]), find_runs(config), config.work_dir
    first, second = runs["gad"]
    assert (first.folders(config), first.files(config, tests)) == ([], {})
    assert first.missing(config) == ["translations/gad@1", "extra/gad@1"]
    assert second.folders(config) == [work / "translations/gad@2", work / "extra/gad@2"]
    assert second.missing(config) == []
    assert read_translations(second.files(config, tests), tests) == {**REFERENCES, "ood:NEWS": NEWS}
    (ft,) = runs["ft"]
    assert ft.files(config, tests) == {"med": work / "translations/ft@med/med.de"}
    assert ft.missing(config) == ["translations/ft@law"]

"""Test sets beside those held out of the corpora: the user's own, those out of domain, and joined sentences.

They are translated by ``fairseq-interactive``. A set whose domain is known is translated as typed lines that name it.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.corpora.entries import check_entries, entry_paths
from fairseq_ext.corpora.import_corpora import import_domain
from fairseq_ext.corpora.text_files import read_lines, read_parallel, write_lines
from fairseq_ext.domains.names import domain_tag
from fairseq_ext.engine.fairseq_cli import run_fairseq
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.joined import draw_pairs, write_pairs
from fairseq_ext.experiments.translation.outputs import OutputRun
from fairseq_ext.experiments.translation.translate import GATES_FILE, how_to_make, write_hypotheses
from fairseq_ext.filtering.normalise import normalise_lines
from fairseq_ext.inputs.sections import check_choice

TYPED_FILE = "typed.txt"
# Before the names of sets in tables.
TEST, OOD = "test:", "ood:"


def sets_dir(config: TranslationExperiment) -> Path:
    """Where the sets lie, as ``SET.LANG``."""
    return config.work_dir / "extra-sets"


def translations_dir(config: TranslationExperiment, name: str) -> Path:
    """Where an output run's translations of the sets lie, as ``SET.LANG``."""
    return config.work_dir / "extra" / name


def column_of(config: TranslationExperiment, name: str) -> str:
    """What a set is called in tables of scores, where no domain has a colon in its name."""
    return f"{TEST if name in config.evaluate.tests else OOD}{name}"


def sets_for(config: TranslationExperiment, run: OutputRun) -> list[str]:
    """The sets that an output run can translate; a model of one domain is for sets of that domain alone."""
    only = run.run.domain
    return [
        name
        for name, domain in config.evaluate.sets.items()
        if run.output.can_translate(domain) and only in (None, domain)
    ]


def extra_set_steps(config: TranslationExperiment) -> list[Step]:
    """The steps that make the sets of ``evaluate: tests``, ``ood`` and ``joined``, and translate them.

    Raises:
        InputError: naming a set whose domain is none of the experiment's.
    """
    if not config.evaluate.sets:
        return []
    check_domains(config)
    runs = [run for run in config.all_output_runs() if sets_for(config, run)]
    return [_sets_step(config), *(_translation_step(config, run) for run in runs)]


def check_domains(config: TranslationExperiment) -> None:
    """Check that the user's own test sets are of domains that there are.

    Raises:
        InputError: naming a set whose domain is none of the experiment's.
    """
    for name, test in config.evaluate.tests.items():
        if test.domain is not None:
            where = f"{config.path}: evaluate: tests: {name}: domain"
            check_choice(test.domain, config.domains, where)


def import_sets(folder: Path, config: TranslationExperiment) -> None:
    """Write the sets: normalised like the corpora, not filtered but for pairs with an empty side."""
    langs = (config.source_lang, config.target_lang)
    for name, entry in sorted(config.evaluate.corpora.items()):
        with tempfile.TemporaryDirectory(dir=folder, prefix=".import-") as temporary:
            imported = Path(temporary)
            import_domain(
                imported,
                name,
                [entry],
                langs,
                on_bad_utf8=config.corpora.on_bad_utf8,
                downloads=config.work_dir / "downloads",
            )
            pairs = read_parallel(*(imported / f"{name}.{lang}" for lang in langs))
        for lang, lines in zip(langs, zip(*pairs, strict=True), strict=True):
            normal = normalise_lines(lines, lang, config.clean.normalise) if config.clean.normalise else lines
            write_lines(folder / f"{name}.{lang}", normal)
    if config.evaluate.joined:
        splits = config.work_dir / "splits"
        joined = draw_pairs(splits, langs, config.evaluate.joined, config.split.max_words, config.seed)
        write_pairs(folder, langs, joined)


def with_guessed_domains(lines: Sequence[str], teacher: Path) -> list[str]:
    """Put before every line the tag of the domain that the classifier takes it for."""
    # The classifier's libraries take seconds to import; only what needs them pays.
    from fairseq_ext.data.teacher_labels import read_teacher_record
    from fairseq_ext.teacher.classifier import MODEL_FOLDER, load_classifier

    record = read_teacher_record(teacher)
    guesses = load_classifier(teacher / MODEL_FOLDER, record["backend"]).predict(lines).argmax(axis=1)
    return [f"{domain_tag(record['domains'][guess])} {line}" for guess, line in zip(guesses, lines, strict=True)]


def _sets_step(config: TranslationExperiment) -> Step:
    langs = (config.source_lang, config.target_lang)
    sets = {name: [entry] for name, entry in config.evaluate.corpora.items()}
    clean, joined = config.clean.normalise, config.evaluate.joined
    return Step(
        sets_dir(config),
        inputs=[*check_entries(sets, langs), *([config.work_dir / "splits"] if joined else [])],
        options={
            # As with the corpora: what is fetched is known by its name, local files by their contents.
            "sets": {name: Path(e).name if entry_paths(e, langs) else e for name, [e] in sets.items()},
            "langs": langs,
            "on_bad_utf8": config.corpora.on_bad_utf8,
            "normalise": dataclasses.asdict(clean) if clean else None,
            **({"joined": joined, "max_words": config.split.max_words, "seed": config.seed} if joined else {}),
        },
        build=lambda folder: import_sets(folder, config),
    )


def _translation_step(config: TranslationExperiment, run: OutputRun) -> Step:
    output, sets = how_to_make(config, run), sets_dir(config)
    names, is_watched = sets_for(config, run), run.output.gates and config.evaluate.joined
    # An output that has the domain from elsewhere, or needs none, is not told it.
    domains = [config.evaluate.sets[name] if run.output.is_told and not run.run.domain else None for name in names]

    def build(folder: Path) -> None:
        texts = {name: read_lines(sets / f"{name}.{config.source_lang}") for name in names}
        lines = [line for text in texts.values() for line in text]
        if run.output.domain_source == "classifier":
            lines = with_guessed_domains(lines, config.work_dir / "teacher")
        else:
            known = [domain for domain, text in zip(domains, texts.values(), strict=True) for _ in text]
            lines = [f"{domain_tag(d)} {line}" if d else line for d, line in zip(known, lines, strict=True)]
        typed, printed = folder / TYPED_FILE, folder / "interactive.txt"
        write_lines(typed, lines)
        # All lines at once, so that batches hold lines of one length.
        reading = ["--input", str(typed), "--buffer-size", str(len(lines))]
        gates = ["--gates-output", str(folder / GATES_FILE), "--gates-by-token"] if is_watched else []
        arguments = [str(output.inputs[0]), *output.arguments, *gates, *reading]
        run_fairseq("interactive", arguments, output=printed, messages=folder / "interactive.log")
        write_hypotheses(folder, printed, {name: len(text) for name, text in texts.items()}, config.target_lang)

    options = {**run.output.options, "source": run.output.domain_source, "sets": names, "domains": domains}
    return Step(
        translations_dir(config, run.name),
        inputs=[*output.inputs, sets],
        options=options,
        build=build,
        commands=[output.command],
        side_by_side=True,
    )

"""Further test sets and their translations: the user's sets, out-of-domain sets, and the domain-switch set.

The sets are in ``extra-sets``, their translations in ``extra/RUN``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairseq_ext.base.domain_names import BASE_ROUTE, DOMAINS_FILE, domain_tag, read_domain_names
from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.base.fairseq_cli import option_of
from fairseq_ext.base.steps import Step
from fairseq_ext.classifiers.classifier import MODEL_FOLDER, load_classifier
from fairseq_ext.data.teacher_labels import classes_of, read_teacher_record
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.decoding import decoding, translate_file
from fairseq_ext.experiments.translation.sections import DOMAIN_SWITCH, OutputRun
from fairseq_ext.text.entries import check_entries, entry_paths
from fairseq_ext.text.import_corpora import import_domain
from fairseq_ext.text.normalise import normalise_lines
from fairseq_ext.text.split import stable_hash
from fairseq_ext.text.text_files import read_lines, stream_parallel, write_lines

# Prefixes of further sets in tables. They are unambiguous, because domain names have no colons.
TEST, OOD = "test:", "ood:"
_LEAST_WORDS = 4  # per joined sentence, on both sides
_TRIES = 200  # per requested pair


def sets_dir(config: Translation) -> Path:
    """Return the directory of the sets, ``SET.LANG``."""
    return config.work_dir / "extra-sets"


def extra_dir(config: Translation, name: str) -> Path:
    """Return the directory of an output run's translations of the sets, ``SET.LANG``."""
    return config.work_dir / "extra" / name


def column_of(config: Translation, name: str) -> str:
    """Return the name of a set in tables of scores."""
    return f"{TEST if name in config.evaluate.tests else OOD}{name}"


def sets_for(config: Translation, run: OutputRun) -> list[str]:
    """Return the sets that an output run translates. A model of one domain translates those of that domain, or all.

    Soft classifier weights are not supported, because lines can name a domain but not weights.
    """
    output, only = run.output, config.domain_of(run)
    if output.domain_source == "classifier-soft":
        return []
    needs_domain = output.uses_oracle and not (run.run.domain and config.evaluate.forgetting)
    return [
        name
        for name, domain in config.evaluate.sets.items()
        if only in (None, domain) and (domain is not None or not needs_domain)
    ]


def extra_set_steps(config: Translation, runs: Sequence[OutputRun] | None = None) -> list[Step]:
    """Return the steps that make and translate the sets of ``evaluate: tests``, ``ood`` and ``domain_switch``.

    ``runs`` are the output runs that translate them (default: all).
    """
    if not config.evaluate.sets:
        return []
    for name, test in config.evaluate.tests.items():
        if test.domain is not None:
            check_choice(test.domain, config.domains, f"{config.path}: evaluate: tests: {name}: domain")
    runs = [run for run in (config.all_output_runs() if runs is None else runs) if sets_for(config, run)]
    return [_sets_step(config), *(_extra_translation_step(config, run) for run in runs)]


def import_sets(folder: Path, config: Translation) -> None:
    """Write the sets, normalised like the corpora. Only pairs with an empty side are removed."""
    langs, corpora, normalise = config.langs, config.corpora, config.cleaning.normalise
    downloads, on_bad_utf8, markup = config.work_dir / "downloads", corpora.on_bad_utf8, corpora.markup
    for name, entry in sorted(config.evaluate.corpora.items()):
        with tempfile.TemporaryDirectory(dir=folder, prefix=".import-") as temporary:
            imported = Path(temporary)
            import_domain(imported, name, [entry], langs, on_bad_utf8=on_bad_utf8, downloads=downloads, markup=markup)
            pairs = list(stream_parallel(*(imported / f"{name}.{lang}" for lang in langs)))
        for lang, lines in zip(langs, zip(*pairs, strict=True), strict=True):
            write_lines(folder / f"{name}.{lang}", normalise_lines(lines, lang, normalise) if normalise else lines)
    if config.evaluate.domain_switch:
        splits, count = config.work_dir / "splits", config.evaluate.domain_switch
        drawn = draw_pairs(splits, langs, count, config.split.max_words, config.seed)
        for lang, lines in zip(langs, zip(*drawn, strict=True), strict=True):
            write_lines(folder / f"{DOMAIN_SWITCH}.{lang}", lines)


def with_guessed_domains(
    lines: Sequence[str], teacher: Path, least: float = 0.0, *, may_be_base: bool = True
) -> list[str]:
    """Prefix each line with the tag of its most probable class; with that of ``base`` if it is less than ``least``.

    With ``may_be_base=False``, it is the most probable domain. Systems with tags have none for ``base``.
    """
    record = read_teacher_record(teacher)
    classes = [name for name in classes_of(record) if may_be_base or name != BASE_ROUTE]
    # The class base is the last column.
    probs = load_classifier(teacher / MODEL_FOLDER, record["backend"]).predict(lines)[:, : len(classes)]
    guesses = [classes[row.argmax()] if row.max() >= least else BASE_ROUTE for row in probs]
    return [f"{domain_tag(guess)} {line}" for guess, line in zip(guesses, lines, strict=True)]


def _sets_step(config: Translation) -> Step:
    langs, corpora, normalise = config.langs, config.corpora, config.cleaning.normalise
    sets, switch = config.evaluate.corpora, config.evaluate.domain_switch
    drawn = {"joined": switch, "max_words": config.split.max_words, "seed": config.seed} if switch else {}
    options = {
        # As for corpora, downloads are identified by name and local files by content.
        "sets": {name: Path(entry).name if entry_paths(entry, langs) else entry for name, entry in sets.items()},
        "langs": langs,
        "on_bad_utf8": corpora.on_bad_utf8,
        "markup": corpora.markup,
        "normalise": normalise.model_dump() if normalise else None,
        **drawn,
    }
    inputs = check_entries({name: [entry] for name, entry in sets.items()}, langs)
    inputs = [*inputs, *([config.work_dir / "splits"] if switch else [])]
    return Step(sets_dir(config), inputs, options, lambda folder: import_sets(folder, config))


def _extra_translation_step(config: Translation, run: OutputRun) -> Step:
    inputs, command = decoding(config, run)
    sets, names = sets_dir(config), sets_for(config, run)
    # Only outputs with an oracle domain use the domain of the set.
    domains = [config.evaluate.sets[name] if run.output.uses_oracle and not run.run.domain else None for name in names]

    def build(folder: Path) -> None:
        texts = {name: read_lines(sets / f"{name}.{config.source_lang}") for name in names}
        sides = zip(domains, texts.values(), strict=True)
        lines = [f"{domain_tag(domain)} {line}" if domain else line for domain, text in sides for line in text]
        if run.output.domain_source == "classifier":
            least, has_tags = float(option_of(run.output.options, "least-certainty") or 0), run.output.system.has_tags
            lines = with_guessed_domains(lines, config.work_dir / "teacher", least, may_be_base=not has_tags)
        typed, lengths = folder / "typed.txt", {name: len(text) for name, text in texts.items()}
        write_lines(typed, lines)
        translate_file(folder, typed, [str(inputs[0]), *command.arguments], lengths, config.target_lang)

    options = {**run.output.options, "source": run.output.domain_source, "sets": names, "domains": domains}
    folder = extra_dir(config, run.name)
    return Step(folder, [*inputs, sets], options, build, commands=[command], side_by_side=True)


# The domain-switch set


def draw_pairs(splits: Path, langs: tuple[str, str], count: int, max_words: int, seed: int) -> list[tuple[str, str]]:
    """Make ``count`` pairs that join test sentences of two random domains, with equal probability for all domains.

    ``splits`` contains ``DOMAIN/test.LANG``. A joined side has at most ``max_words`` words, like sides of the corpora.
    """
    domains = read_domain_names(splits / DOMAINS_FILE)
    if len(domains) < 2:
        raise InputError(
            f"{splits / DOMAINS_FILE}: has one domain, but evaluate: domain_switch needs two; remove domain_switch"
        )
    texts = {name: list(stream_parallel(*(splits / name / f"test.{lang}" for lang in langs))) for name in domains}
    generator = np.random.default_rng(stable_hash(seed, "joined"))
    pairs: dict[tuple[str, str], None] = {}
    for _ in range(_TRIES * count):
        if len(pairs) == count:
            break
        names = tuple(domains[row] for row in generator.choice(len(domains), 2, replace=False))
        first, second = (texts[name][generator.integers(len(texts[name]))] for name in names)
        sides = (f"{first[0]} {second[0]}", f"{first[1]} {second[1]}")
        lengths = [len(text.split()) for text in (*first, *second)]
        if min(lengths) >= _LEAST_WORDS and all(len(side.split()) <= max_words for side in sides):
            pairs[sides] = None
    if len(pairs) < count:
        raise InputError(
            f"evaluate: domain_switch: the test sets give {len(pairs)} pairs with at least {_LEAST_WORDS} words per "
            f"sentence and at most {max_words} per pair, fewer than {count}; lower the number"
        )
    return list(pairs)

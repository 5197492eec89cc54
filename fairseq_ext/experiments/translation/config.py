"""The experiment file: one YAML from corpora to trained models.

It is read and checked here, once, before anything runs; what comes after sees neither its sections nor their keys, but
for the options of fairseq that systems and outputs hold.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.languages import check_language
from fairseq_ext.corpora.raw_text import ON_BAD_UTF8
from fairseq_ext.domains.names import check_domain_names
from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.experiments.kinds import load_as
from fairseq_ext.experiments.translation.comparisons import default_baselines
from fairseq_ext.experiments.translation.experiment import (
    AVERAGE,
    JOINED,
    Corpora,
    Evaluate,
    OwnTest,
    Report,
    TranslationExperiment,
)
from fairseq_ext.experiments.translation.outputs import Output, check_output, read_examples, read_outputs
from fairseq_ext.experiments.translation.systems import TranslationSystem, read_translation_systems
from fairseq_ext.filtering.cascade import FILTERS
from fairseq_ext.filtering.clean import Cleaning
from fairseq_ext.filtering.deduplicate import DEDUPLICATE
from fairseq_ext.filtering.normalise import Normalise
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.models import read_model
from fairseq_ext.inputs.sections import (
    as_mapping,
    check_choice,
    check_keys,
    check_numbers,
    check_seed,
    read_section,
)
from fairseq_ext.metrics.corpus_metrics import text_metric_names
from fairseq_ext.teacher.options import HoulsbyTeacher, Teacher, TfidfTeacher, TransformersTeacher
from fairseq_ext.text.split import Split
from fairseq_ext.text.subwords import Subwords

_MINIMUM = {"folds": 2, "char_ngrams": 2}
_TEACHERS: dict[str, type] = {
    "tfidf": TfidfTeacher,
    "transformers": TransformersTeacher,
    "houlsby": HoulsbyTeacher,
}

# What these hold has names in the experiment that say so.
_READ_APART = ("train", "translate")


def read_config(content: Mapping[str, Any], path: Path) -> TranslationExperiment:
    """Read and check an experiment file.

    Raises:
        InputError: naming the file and key, and what is allowed there.
    """
    raw = dict(content)
    check_keys(TranslationExperiment, raw, str(path), _READ_APART)
    readers: dict[str, Callable[[Any, str], Any]] = {
        "corpora": lambda value, where: read_section(Corpora, value, where),
        "clean": _clean,
        "split": lambda value, where: read_section(Split, value, where),
        "subwords": lambda value, where: read_model(Subwords, value, where, {}),
        "teacher": _teacher,
    }
    sections = {key: read(raw.pop(key), f"{path}: {key}") for key, read in readers.items() if key in raw}
    train, translate = (as_mapping(raw.pop(key, {}), f"{path}: {key}") for key in _READ_APART)
    evaluate = _evaluate(raw.pop("evaluate", {}), f"{path}: evaluate")
    systems = read_translation_systems(train, f"{path}: train")
    outputs = read_outputs(translate, f"{path}: translate", systems)
    given = {
        **sections,
        "path": path,
        "systems": systems,
        "outputs": outputs,
        "examples": read_examples(translate, f"{path}: translate", outputs),
        "evaluate": _with_outputs(evaluate, outputs, systems, f"{path}: evaluate"),
    }
    config: TranslationExperiment = read_section(TranslationExperiment, raw, str(path), given=given, others=_READ_APART)
    _check(config)
    return config


def load_config(path: Path) -> TranslationExperiment:
    """Read and check the file of such an experiment; see :func:`read_config`."""
    return load_as(["translation"], read_config, path)


def _check(config: TranslationExperiment) -> None:
    """Check what types alone cannot say."""
    where = str(config.path)
    corpora = config.corpora
    if (corpora.folder is None) == (corpora.domains is None):
        raise InputError(f"{where}: corpora: give either folder or domains")
    if corpora.domains is not None:
        check_domain_names(sorted(corpora.domains), f"{where}: corpora: domains")
    check_choice(corpora.on_bad_utf8, ON_BAD_UTF8, f"{where}: corpora: on_bad_utf8")
    for key in ("source_lang", "target_lang"):
        check_language(getattr(config, key), f"{where}: {key}")
    if config.source_lang == config.target_lang:
        raise InputError(f"{where}: target_lang: {config.target_lang!r} is also the source_lang; change one")
    for name in ("split", "teacher", "evaluate"):
        # All are counts, sizes or rates, so none makes sense at zero; two have a higher minimum.
        given = dataclasses.asdict(getattr(config, name))
        numbers = {key: value for key, value in given.items() if key not in ("joined", "tests")}
        check_numbers(numbers, f"{where}: {name}", _MINIMUM)
    if config.evaluate.joined < 0:
        raise InputError(f"{where}: evaluate: joined: {config.evaluate.joined} is too small; give 0 for none")
    _check_sets(config.evaluate, f"{where}: evaluate")
    check_seed(config.seed, where)
    _check_starts(config)
    _check_lengths(config)


def _check_sets(evaluate: Evaluate, where: str) -> None:
    """Check the names of the sets beside the held-out ones: each is a file's, and a column's."""
    for key, names in (("ood", evaluate.ood), ("tests", evaluate.tests)):
        if names:
            check_domain_names(sorted(names), f"{where}: {key}")
        if evaluate.joined and JOINED in names:
            raise InputError(f"{where}: {key}: {JOINED} is what evaluate: joined makes; choose another name")
        if AVERAGE in names:
            raise InputError(f"{where}: {key}: {AVERAGE} is a column of the tables; choose another name")
    for name in evaluate.tests:
        if name in evaluate.ood:
            raise InputError(f"{where}: tests: {name}: is also under ood; choose another name")


def _check_starts(config: TranslationExperiment) -> None:
    """Check that all runs have one to start from, but for those of domains, which may not be known yet."""
    for name, system in config.systems.items():
        if system.start and not (system.per_domain or config.systems[system.start].per_domain):
            for run in config.runs(name):
                config.start(run)


def _check_lengths(config: TranslationExperiment) -> None:
    """Check that nobody gave epochs for updates: no system has fewer updates than the one it starts from has epochs."""
    for system in config.systems.values():
        base = config.systems.get(system.start or "")
        epochs = option_of(base.options, "max-epoch") if base else None
        updates = option_of(system.options, "max-update")
        if _is_count(epochs) and _is_count(updates) and updates < epochs:
            raise InputError(
                f"{system.place('max-update')}: {updates} updates are fewer than the {epochs} epochs of "
                f"{system.start}; give more, or write max-epoch"
            )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def _clean(value: Any, where: str) -> Cleaning:
    entries = dict(as_mapping(value, where))
    given = as_mapping(entries.pop("filters", None) or {}, f"{where}: filters")
    for name in given:
        check_choice(name, tuple(FILTERS), f"{where}: filters")
    # Pairs without text on a side are no pairs, whatever else is kept.
    chosen = {"empty": None, **given}
    filters = {
        name: _options(kind, chosen[name], f"{where}: filters: {name}")
        for name, kind in FILTERS.items()
        if name in chosen
    }
    normalise = None
    if "normalise" in entries:
        normalise = _options(Normalise, entries.pop("normalise"), f"{where}: normalise")
    clean: Cleaning = read_section(Cleaning, entries, where, given={"filters": filters, "normalise": normalise})
    if clean.deduplicate is not None:
        check_choice(clean.deduplicate, DEDUPLICATE, f"{where}: deduplicate")
    return clean


def _options(kind: type, value: Any, where: str) -> Any:
    """Read a section whose class checks its own values; an empty one means its defaults."""
    try:
        return read_section(kind, {} if value is None else value, where)
    except InputError as error:
        raise error if str(error).startswith(where) else InputError(f"{where}: {error}") from None


def _evaluate(value: Any, where: str) -> Evaluate:
    # No sets, no outputs to time: an empty entry says the same as none.
    entries = {key: entry for key, entry in as_mapping(value, where).items() if entry not in (None, [], {})}
    report = read_section(Report, entries.pop("report", {}), f"{where}: report")
    tests = as_mapping(entries.pop("tests", {}), f"{where}: tests")
    own = {name: _own_test(entry, f"{where}: tests: {name}") for name, entry in tests.items()}
    if report.examples < 0:
        raise InputError(f"{where}: report: examples: {report.examples} is too small; give 0 for none")
    evaluate: Evaluate = read_section(Evaluate, entries, where, given={"report": report, "tests": own})
    for name in evaluate.metrics:
        if name == "COMET":
            raise InputError(f"{where}: metrics: COMET needs a model; name that under evaluate: comet")
        check_choice(name, text_metric_names(), f"{where}: metrics")
    return evaluate


def _own_test(value: Any, where: str) -> OwnTest:
    """A test set of the user's own: its corpus alone, or with the domain that it is from."""
    test: OwnTest = read_section(OwnTest, {"corpus": value} if isinstance(value, str) else value, where)
    return test


def _with_outputs(
    evaluate: Evaluate, outputs: Mapping[str, Output], systems: Mapping[str, TranslationSystem], where: str
) -> Evaluate:
    """The section with the names of outputs for patterns and for what the file leaves open."""
    compare = _choose(evaluate.compare, outputs, f"{where}: compare") or default_baselines(outputs, systems)
    baseline = evaluate.baseline or next(iter(outputs), None)
    for key, names in (("baseline", [baseline] if baseline else []), ("speed", evaluate.speed)):
        for name in names:
            check_output(name, outputs, f"{where}: {key}")
    ablation = _choose(evaluate.report.ablation, outputs, f"{where}: report: ablation")
    main = _choose(evaluate.report.main, outputs, f"{where}: report: main")
    main = main or [name for name in outputs if name not in ablation[1:]]
    report = dataclasses.replace(evaluate.report, main=main, ablation=ablation)
    return dataclasses.replace(evaluate, baseline=baseline, compare=compare, report=report)


def _choose(patterns: Sequence[str], outputs: Mapping[str, Output], where: str) -> list[str]:
    """The outputs that patterns name, in the order of the patterns, each once."""
    chosen: dict[str, None] = {}
    for pattern in patterns:
        found = [name for name in outputs if fnmatch.fnmatchcase(name, pattern)]
        if not found:
            check_output(pattern, outputs, where)
        chosen |= dict.fromkeys(found)
    return list(chosen)


def _teacher(value: Any, where: str) -> Teacher:
    backend = as_mapping(value, where).get("backend", "tfidf")
    check_choice(backend, tuple(_TEACHERS), f"{where}: backend")
    return read_section(_TEACHERS[backend], value, where)

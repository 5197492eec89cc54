"""The data of an experiment and the labels of its domain classifier, as steps.

``corpora``, ``clean``, ``splits``, ``subwords``, ``encoded`` and ``data-bin`` are the data; ``teacher`` is the domain
classifier with its labels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from fairseq_ext.classifiers.classifier import Teacher, TfidfTeacher
from fairseq_ext.cleaning.clean import Cleaning, clean_corpora
from fairseq_ext.cleaning.dictionary import Dictionary
from fairseq_ext.cleaning.language_id import SAMPLE, check_sides
from fairseq_ext.cleaning.learn import has_to_learn, learn_from_corpora
from fairseq_ext.convert.steps import base_files
from fairseq_ext.corpora.blocks import index_path
from fairseq_ext.corpora.entries import check_entries, entry_paths, fetch_entries, folder_entries
from fairseq_ext.corpora.import_corpora import import_domain
from fairseq_ext.corpora.split import write_splits
from fairseq_ext.corpora.subwords import MODEL_FILE, encode_splits, take_subwords, train_subwords
from fairseq_ext.corpora.text_files import Pair, stream_lines
from fairseq_ext.data.binarise import binarise
from fairseq_ext.engine.steps import Step, versions
from fairseq_ext.engine.tasks import TASKS_DIR, THIS_MACHINE, Engine, move_outputs, run_tasks
from fairseq_ext.inputs.domain_names import domain_tag
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.train import BEST_CHECKPOINT, system_dir
from fairseq_ext.recipes.translation.config import MIX, Translation
from fairseq_ext.recipes.translation.sections import Corpora

# Another version of these may clean otherwise.
_CLEANERS = ("sacremoses", "regex", "langid", "py3langid", "ftfy")
# Options that earlier versions did not have: their teachers stay valid while these have their defaults.
_LATER_OPTIONS = ("max_sentences", "precision", "subword_ngrams", "subword_model")


def preparation_steps(config: Translation, engine: Engine = THIS_MACHINE) -> list[Step]:
    """The steps of an experiment's data preparation, in order; all write below ``config.work_dir``."""
    corpora, subwords = corpus_steps(config, engine), _subword_steps(config)
    # A base that cannot be used is better known at once.
    first = [*subwords, *corpora] if config.base else [*corpora, *subwords]
    return [*first, _encode_step(config), _binarise_step(config, engine)]


def base_step(config: Translation) -> Step:
    """The step that takes the base that was trained elsewhere, as the system ``mix``, with its vocabulary."""
    base = config.base
    assert base is not None
    told = (base.source_lang, base.target_lang)

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.convert.experiment_base import write_base

        vocabulary = folder / config.subwords_dir.name
        write_base(base.folder, folder / BEST_CHECKPOINT, vocabulary, config.langs, told)
        _check_tags(config, vocabulary)

    files, options = base_files(base.folder), {"version": 1, "langs": config.langs, "told": told}
    return Step(system_dir(config, MIX), files, options, build, results=[BEST_CHECKPOINT])


def _check_tags(config: Translation, vocabulary: Path) -> None:
    """Refuse systems with domain tags where the base has no symbols for them."""
    lines = stream_lines(vocabulary / f"dict.{config.source_lang}.txt")
    symbols = {line.rpartition(" ")[0] for line in lines}
    missing = [tag for name in config.domains if (tag := domain_tag(name)) not in symbols]
    for system in config.systems.values():
        if system.has_tags and missing:
            raise InputError(f"{system.place('domain-tags')}: the base has no symbol {missing[0]}; take the system out")


def corpus_steps(config: Translation, engine: Engine = THIS_MACHINE) -> list[Step]:
    """The steps that end with ``splits``."""
    domains = _domains(config)
    learn = [_learning_step(config, sorted(domains))] if has_to_learn(config.cleaning.filters) else []
    return [
        _import_step(config, domains, engine),
        *learn,
        _clean_step(config, sorted(domains), engine),
        _split_step(config, sorted(domains)),
    ]


def _subword_steps(config: Translation) -> list[Step]:
    """The steps that make the subwords: none where another experiment's are used."""
    if config.base:
        return [base_step(config)]
    if config.subwords.reuse:
        return []
    langs, splits, subwords = config.langs, config.work_dir / "splits", config.subwords_dir
    if config.subwords.base:
        model = Path(config.subwords.base)
        return [Step(subwords, [model], {}, lambda folder: take_subwords(folder, model))]
    options = config.subwords.model_dump(exclude={"reuse", "base"})
    given = {"langs": langs, "seed": config.seed, **options, "with": versions("sentencepiece")}

    def build(folder: Path) -> None:
        train_subwords(folder, splits, langs, options=config.subwords, seed=config.seed)

    return [Step(subwords, [splits], given, build)]


def _encode_step(config: Translation) -> Step:
    langs, splits, subwords = config.langs, config.work_dir / "splits", config.subwords_dir

    def build(folder: Path) -> None:
        encode_splits(folder, splits, subwords, langs)

    return Step(config.work_dir / "encoded", [splits, subwords], {"langs": langs}, build)


def _domains(config: Translation) -> Mapping[str, Sequence[str]]:
    if config.corpora.domains is not None:
        return config.corpora.domains
    return folder_entries(Path(config.corpora.folder or ""), config.langs)


def _import_one(
    domains: Mapping[str, Sequence[str]],
    corpora: Corpora,
    langs: tuple[str, str],
    downloads: Path,
    index: int,
    output: Path,
) -> None:
    """Import the domain of this number. What it is given is sent to other processes."""
    name = sorted(domains)[index]
    import_domain(
        output,
        name,
        domains[name],
        langs,
        on_bad_utf8=corpora.on_bad_utf8,
        downloads=downloads,
        markup=corpora.markup,
    )
    sides = (islice(stream_lines(output / f"{name}.{lang}"), SAMPLE) for lang in langs)
    check_sides([Pair(*pair) for pair in zip(*sides, strict=True)], langs, name)


def _import_step(config: Translation, domains: Mapping[str, Sequence[str]], engine: Engine) -> Step:
    langs, downloads = config.langs, config.work_dir / "downloads"
    import_one = partial(_import_one, domains, config.corpora, langs, downloads)
    # Reading is cheap and paths are relative to here, so no cluster is asked.
    here = Engine(engine.workers)

    def build(folder: Path) -> str:
        config.cleaning.check(langs)
        entries = [entry for name in sorted(domains) for entry in domains[name]]
        fetch_entries(entries, langs, downloads)
        tasks = folder / TASKS_DIR
        run_tasks(import_one, tasks, len(domains), here, "import")
        move_outputs(tasks, len(domains), folder)
        pairs = sum(json.loads(index_path(folder, name).read_text(encoding="utf-8"))["pairs"] for name in domains)
        return f"{pairs:,} pairs of {len(domains)} domains"

    names = {
        name: [Path(entry).name if entry_paths(entry, langs) else entry for entry in entries]
        for name, entries in domains.items()
    }
    return Step(
        config.work_dir / "corpora",
        # What is fetched is pinned and cannot change, so its name stands for it; local files count by content.
        inputs=check_entries(domains, langs),
        options={
            "domains": names,
            "langs": langs,
            "on_bad_utf8": config.corpora.on_bad_utf8,
            "markup": config.corpora.markup,
        },
        build=build,
        resumable=True,
    )


def _learning_step(config: Translation, domains: Sequence[str]) -> Step:
    langs, clean = config.langs, config.cleaning
    corpora = config.work_dir / "corpora"
    return Step(
        config.work_dir / "learned",
        [*_texts(corpora, domains, langs), *_word_lists(clean)],
        {"domains": domains, "langs": langs, **clean.recorded},
        lambda folder: learn_from_corpora(folder, corpora, domains, langs, clean),
    )


def _clean_step(config: Translation, domains: Sequence[str], engine: Engine) -> Step:
    langs, clean = config.langs, config.cleaning
    corpora = config.work_dir / "corpora"
    learned = config.work_dir / "learned" if has_to_learn(clean.filters) else None
    return Step(
        config.work_dir / "clean",
        inputs=[
            *_texts(corpora, domains, langs),
            *(index_path(corpora, name) for name in domains),  # what import counted is in the report
            *([learned] if learned else []),
        ],
        options={"domains": domains, "langs": langs, **clean.recorded, "with": versions(*_CLEANERS)},
        build=lambda folder: clean_corpora(folder, corpora, domains, langs, clean, engine, learned),
        resumable=True,
    )


def _word_lists(clean: Cleaning) -> list[Path]:
    dictionary = clean.filters.get("dictionary")
    assert dictionary is None or isinstance(dictionary, Dictionary)
    return [Path(dictionary.word_list)] if dictionary and dictionary.word_list else []


def _split_step(config: Translation, domains: Sequence[str]) -> Step:
    langs, folder = config.langs, config.work_dir / "clean"
    files = {name: (folder / f"{name}.{langs[0]}", folder / f"{name}.{langs[1]}") for name in domains}
    return Step(
        config.work_dir / "splits",
        inputs=_texts(folder, domains, langs),
        options={**config.split.model_dump(), "seed": config.seed, "domains": list(domains), "langs": langs},
        build=lambda output: write_splits(output, files, langs, options=config.split, seed=config.seed),
    )


def _binarise_step(config: Translation, engine: Engine) -> Step:
    langs = config.langs
    encoded, subwords = config.work_dir / "encoded", config.subwords_dir
    here = Engine(engine.workers)
    return Step(
        config.work_dir / "data-bin",
        inputs=[encoded, subwords],
        options={"langs": langs},
        build=lambda folder: binarise(folder, encoded, subwords, langs, here),
        resumable=True,
    )


def _texts(folder: Path, domains: Sequence[str], langs: tuple[str, str]) -> list[Path]:
    return [folder / f"{name}.{lang}" for name in domains for lang in langs]


# The classifier of domains


def teacher_steps(config: Translation, engine: Engine = THIS_MACHINE) -> list[Step]:
    """The steps that end with ``teacher``; the sets are made first if they are missing."""
    # scikit-learn takes a second to load; a dry run of other stages does without.
    from fairseq_ext.classifiers.classifier import input_files

    splits, options = config.work_dir / "splits", _with_subwords(config)

    def build(folder: Path) -> str:
        from fairseq_ext.classifiers.teacher import train_teacher

        return train_teacher(folder, splits, config.source_lang, options=options, seed=config.seed, engine=engine)

    teacher = Step(
        config.work_dir / "teacher",
        inputs=[splits, *input_files(options)],
        options={"lang": config.source_lang, "seed": config.seed, **_options_that_count(config.teacher)},
        build=build,
        resumable=True,
    )
    needed = [] if options == config.teacher else _subword_steps(config)
    return [*corpus_steps(config, engine), *needed, teacher]


def _with_subwords(config: Translation) -> Teacher:
    """The classifier's options; subwords that it counts are the experiment's where the file names no others."""
    options = config.teacher
    if isinstance(options, TfidfTeacher) and options.subword_ngrams and options.subword_model is None:
        return options.model_copy(update={"subword_model": str((config.subwords_dir / MODEL_FILE).resolve())})
    return options


def _options_that_count(options: Teacher) -> Mapping[str, Any]:
    """All but those later options that have their defaults."""
    defaults = {name: field.default for name, field in type(options).model_fields.items() if name in _LATER_OPTIONS}
    return {key: value for key, value in options.model_dump().items() if defaults.get(key, ...) != value}

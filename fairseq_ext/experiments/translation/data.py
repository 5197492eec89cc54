"""Steps that prepare the data of an experiment and the labels of its domain classifier.

The data are in ``corpora``, ``clean``, ``splits``, ``subwords``, ``encoded`` and ``data-bin``. ``teacher`` has the
domain classifier and its labels, and ``general`` sentence pairs of no domain.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from fairseq_ext.base.domain_names import domain_tag
from fairseq_ext.base.jobs import JOBS_DIR, THIS_MACHINE, Engine, fill_by_jobs, remove_jobs
from fairseq_ext.base.steps import Step, versions
from fairseq_ext.classifiers.classifier import Teacher, TfidfTeacher, input_files
from fairseq_ext.classifiers.teacher import base_path, train_teacher
from fairseq_ext.convert.steps import base_files
from fairseq_ext.data.binarise import binarise, binarise_files
from fairseq_ext.experiments.base import BASE
from fairseq_ext.experiments.train import BEST_CHECKPOINT, best_checkpoint, system_dir
from fairseq_ext.experiments.translation.cleaning_report import write_cleaning_report
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.decoding import TASK, translate_file
from fairseq_ext.experiments.translation.sections import Corpora
from fairseq_ext.text.blocks import index_path
from fairseq_ext.text.cleaning.clean import clean_corpora
from fairseq_ext.text.cleaning.dictionary import Dictionary
from fairseq_ext.text.cleaning.language_id import SAMPLE, check_sides
from fairseq_ext.text.cleaning.learn import has_to_learn, learn_from_corpora
from fairseq_ext.text.entries import check_entries, entry_paths, fetch_entries, folder_entries
from fairseq_ext.text.import_corpora import import_domain
from fairseq_ext.text.normalise import normalise_lines
from fairseq_ext.text.raw_text import canonical
from fairseq_ext.text.split import write_splits
from fairseq_ext.text.subwords import (
    MODEL_FILE,
    dictionary_of,
    encode_lines,
    encode_splits,
    load_subwords,
    model_of,
    take_subwords,
    train_subwords,
)
from fairseq_ext.text.text_files import Pair, stream_lines, write_lines

_GENERAL = "train"  # name of the set of general text
# The results of cleaning may depend on the versions of these packages.
_CLEANERS = ("sacremoses", "regex", "langid", "py3langid", "ftfy")


def preparation_steps(config: Translation, engine: Engine = THIS_MACHINE) -> list[Step]:
    """Return the data preparation steps in order. All write below ``config.work_dir``."""
    corpora, subwords = corpus_steps(config, engine), _subword_steps(config)
    # Import the base first, so that an unusable one is reported early.
    first = [*subwords, *corpora] if config.base else [*corpora, *subwords]
    langs, vocabulary, options = config.langs, config.subwords_dir, {"langs": config.langs}
    splits, encoded = config.work_dir / "splits", config.work_dir / "encoded"
    encode = partial(encode_splits, splits=splits, subwords=vocabulary, langs=langs)
    number = partial(binarise, encoded=encoded, subwords=vocabulary, langs=langs, engine=Engine(engine.workers))
    return [
        *first,
        Step(encoded, [splits, vocabulary], options, encode),
        Step(config.work_dir / "data-bin", [encoded, vocabulary], options, number, resumable=True),
    ]


def base_step(config: Translation) -> Step:
    """Return the step that imports the pretrained base, with its vocabulary, as the system ``base``."""
    base = config.base
    assert base is not None
    told, downloads = (base.source_lang, base.target_lang), config.work_dir / "downloads"
    tags = [domain_tag(name) for name in config.domains] if config.has_tags else []

    def build(folder: Path) -> None:
        # Imported here because it loads fairseq.
        from fairseq_ext.convert.experiment_base import write_base

        vocabulary = folder / config.subwords_dir.name
        with base.opened(downloads) as (source, origin):
            write_base(source, folder / BEST_CHECKPOINT, vocabulary, config.langs, told, origin, tags)

    files = [] if base.path is None else base_files(base.path)
    options = {"version": 2, "langs": config.langs, "told": told, **base.recorded, **({"tags": tags} if tags else {})}
    return Step(system_dir(config, BASE), files, options, build, results=[BEST_CHECKPOINT])


def corpus_steps(config: Translation, engine: Engine = THIS_MACHINE) -> list[Step]:
    """Return the steps up to ``splits``."""
    langs, cleaning = config.langs, config.cleaning
    domains: Mapping[str, Sequence[str]] | None = config.corpora.domains
    if domains is None:
        domains = folder_entries(Path(config.corpora.folder or ""), langs)
    names = sorted(domains)
    corpora, clean, learned = (config.work_dir / name for name in ("corpora", "clean", "learned"))
    imported, cleaned = ([folder / f"{name}.{lang}" for name in names for lang in langs] for folder in (corpora, clean))
    recorded = {"domains": names, "langs": langs, **cleaning.recorded}
    learns = [learned] if has_to_learn(cleaning.filters) else []
    filters = cleaning.filters.values()
    word_lists = [Path(each.word_list) for each in filters if isinstance(each, Dictionary) and each.word_list]
    learn = partial(learn_from_corpora, corpora=corpora, domains=names, langs=langs, cleaning=cleaning)

    def build_clean(folder: Path) -> str:
        tallies = clean_corpora(folder, corpora, names, langs, cleaning, engine, learned if learns else None)
        summary = write_cleaning_report(folder, langs, cleaning, tallies)
        remove_jobs(folder / JOBS_DIR)  # the next run would start from scratch
        return summary

    # The report of cleaning includes the counts of the import.
    counts = [index_path(corpora, name) for name in names]
    with_versions = {**recorded, "with": versions(*_CLEANERS)}
    files = {name: (clean / f"{name}.{langs[0]}", clean / f"{name}.{langs[1]}") for name in names}
    of_split = {**config.split.model_dump(), "seed": config.seed, "domains": names, "langs": langs}
    split = partial(write_splits, corpora=files, langs=langs, options=config.split, seed=config.seed)
    return [
        _import_step(config, domains, engine),
        *([Step(learned, [*imported, *word_lists], recorded, learn)] if learns else []),
        Step(clean, [*imported, *counts, *learns], with_versions, build_clean, resumable=True),
        Step(config.work_dir / "splits", cleaned, of_split, split),
    ]


def _import_step(config: Translation, domains: Mapping[str, Sequence[str]], engine: Engine) -> Step:
    langs, downloads, corpora = config.langs, config.work_dir / "downloads", config.corpora
    import_one = partial(_import_one, domains, corpora, langs, downloads)
    # Runs locally: reading is cheap, and paths are relative to the current directory.
    here = Engine(engine.workers)

    def build(folder: Path) -> str:
        config.cleaning.check(langs)
        fetch_entries([entry for name in sorted(domains) for entry in domains[name]], langs, downloads)
        fill_by_jobs(folder, import_one, len(domains), here, "import")
        pairs = sum(json.loads(index_path(folder, name).read_text(encoding="utf-8"))["pairs"] for name in domains)
        return f"{pairs:,} pairs of {len(domains)} domains"

    names = {
        name: [Path(entry).name if entry_paths(entry, langs) else entry for entry in entries]
        for name, entries in domains.items()
    }
    options = {"domains": names, "langs": langs, "on_bad_utf8": corpora.on_bad_utf8, "markup": corpora.markup}
    # Downloads are pinned, so they are identified by name; local files are identified by content.
    return Step(config.work_dir / "corpora", check_entries(domains, langs), options, build, resumable=True)


def _import_one(
    domains: Mapping[str, Sequence[str]],
    corpora: Corpora,
    langs: tuple[str, str],
    downloads: Path,
    index: int,
    output: Path,
) -> None:
    """Import the domain with this index. All arguments must be picklable."""
    name, on_bad_utf8, markup = sorted(domains)[index], corpora.on_bad_utf8, corpora.markup
    import_domain(output, name, domains[name], langs, on_bad_utf8=on_bad_utf8, downloads=downloads, markup=markup)
    sides = (islice(stream_lines(output / f"{name}.{lang}"), SAMPLE) for lang in langs)
    check_sides([Pair(*pair) for pair in zip(*sides, strict=True)], langs, name)


def _subword_steps(config: Translation) -> list[Step]:
    """Return the steps that make the subwords; none if those of another experiment are reused."""
    langs, splits, output, options = config.langs, config.work_dir / "splits", config.subwords_dir, config.subwords
    if config.base:
        return [base_step(config)]
    if options.reuse:
        return []
    if options.base:
        model = Path(options.base)
        return [Step(output, [model], {}, lambda folder: take_subwords(folder, model))]
    counted = options.model_dump(exclude={"reuse", "base"})
    recorded = {"langs": langs, "seed": config.seed, **counted, "with": versions("sentencepiece")}
    build = partial(train_subwords, splits=splits, langs=langs, options=options, seed=config.seed)
    return [Step(output, [splits], recorded, build)]


# The domain classifier


def teacher_steps(config: Translation, engine: Engine = THIS_MACHINE) -> list[Step]:
    """Return the steps up to ``teacher``, including those that make the sets."""
    splits, options = config.work_dir / "splits", _with_subwords(config)

    def build(folder: Path) -> str:
        if options.base_text:
            write_lines(base_path(folder, config.source_lang), base_text(config))
        return train_teacher(folder, splits, config.source_lang, options=options, seed=config.seed, engine=engine)

    inputs = [splits, *input_files(options)]
    recorded = {"lang": config.source_lang, "seed": config.seed, **config.teacher.model_dump()}
    recorded["base_text"] = tuple(path.name for path in config.teacher.base_text)  # its content is an input
    teacher = Step(config.work_dir / "teacher", inputs, recorded, build, resumable=True)
    needed = [] if options == config.teacher else _subword_steps(config)
    return [*corpus_steps(config, engine), *needed, teacher]


def base_text(config: Translation) -> list[str]:
    """Return the classifier's text of no domain, normalised as the corpora."""
    lines = [canonical(line, Counter()) for path in config.teacher.base_text for line in stream_lines(path)]
    normalise = config.cleaning.normalise
    normal = normalise_lines(lines, config.source_lang, normalise) if normalise else lines
    return [line for line in normal if line]


def _with_subwords(config: Translation) -> Teacher:
    """Return the classifier's options. The subword model defaults to the experiment's."""
    options = config.teacher
    if isinstance(options, TfidfTeacher) and options.subword_ngrams and options.subword_model is None:
        return options.model_copy(update={"subword_model": str((config.subwords_dir / MODEL_FILE).resolve())})
    return options


# General text


def general_step(config: Translation) -> Step:
    """Return the step that translates the text of ``teacher: base_text`` by the base, and binarises the pairs.

    The base's own translations are the targets, so that general text teaches nothing but when to choose the base.
    """
    data, checkpoint = config.work_dir / "data-bin", best_checkpoint(config, BASE)
    arguments = ["--task", TASK, "--path", str(checkpoint), "--domain", BASE, "--beam", "1", "--max-tokens", "4000"]
    arguments += ["--max-len-a", "2", "--max-len-b", "20"]  # a translation that repeats itself holds up its whole batch
    arguments += ["--bpe", "sentencepiece", "--sentencepiece-model", str(data / "sentencepiece.model")]

    def build(folder: Path) -> str:
        lines = [line for line in base_text(config) if len(line.split()) <= config.split.max_words]
        source = folder / f"{_GENERAL}.{config.source_lang}"
        write_lines(source, lines)
        translate_file(folder, source, [str(data), *arguments], {_GENERAL: len(lines)}, config.target_lang)
        # As fairseq names them: train.SRC-TGT.LANG.
        files = [(f"{_GENERAL}.pieces.{lang}", f"{_GENERAL}.{'-'.join(config.langs)}.{lang}") for lang in config.langs]
        for lang, (pieces, _) in zip(config.langs, files, strict=True):
            processor = load_subwords(model_of(config.subwords_dir, lang))
            write_lines(folder / pieces, encode_lines(processor, stream_lines(folder / f"{_GENERAL}.{lang}")))
        dictionaries = [dictionary_of(config.subwords_dir, lang) for lang in config.langs]
        binarise_files(folder, folder, dictionaries, files, THIS_MACHINE)
        return f"{len(lines):,} sentences"

    inputs = [data, checkpoint, *map(Path, config.teacher.base_text)]
    options = {"version": 1, "langs": config.langs, "max_words": config.split.max_words}
    return Step(config.work_dir / "general", inputs, options, build)

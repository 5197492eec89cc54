"""From corpora to trained systems and their translations, as stages.

``corpora``, ``clean``, ``splits``, ``subwords``, ``encoded`` and ``data-bin`` are the data; ``teacher`` is the domain
classifier with its labels; ``systems/RUN`` are trainings; ``translations/RUN`` are the test sets, ``extra/RUN`` the
further sets, as decoding runs translate them.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from fairseq_ext.cleaning.clean import Cleaning, clean_corpora
from fairseq_ext.cleaning.dictionary import Dictionary
from fairseq_ext.cleaning.learn import has_to_learn, learn_from_corpora
from fairseq_ext.cleaning.normalise import normalise_lines
from fairseq_ext.cleaning.sides import SAMPLE, check_sides
from fairseq_ext.convert.steps import base_files
from fairseq_ext.corpora.blocks import index_path
from fairseq_ext.corpora.entries import check_entries, entry_paths, fetch_entries, folder_entries
from fairseq_ext.corpora.import_corpora import import_domain
from fairseq_ext.corpora.joined import draw_pairs, write_pairs
from fairseq_ext.corpora.raw_text import Markup
from fairseq_ext.corpora.split import write_splits
from fairseq_ext.corpora.subwords import MODEL_FILE, encode_splits, take_subwords, train_subwords
from fairseq_ext.corpora.text_files import Pair, read_lines, read_parallel, stream_lines, write_lines
from fairseq_ext.data.binarise import binarise
from fairseq_ext.engine.fairseq_cli import as_arguments, option_of, run_fairseq
from fairseq_ext.engine.fairseq_options import FairseqCommand, named_files
from fairseq_ext.engine.progress import Look, progress
from fairseq_ext.engine.provenance import EXTRA
from fairseq_ext.engine.stages import Stage
from fairseq_ext.engine.steps import Step, versions
from fairseq_ext.engine.tasks import TASKS_DIR, Engine, move_outputs, run_tasks
from fairseq_ext.inputs.domain_names import DOMAINS_FILE, domain_tag, read_domain_names
from fairseq_ext.inputs.errors import InputError, check_choice
from fairseq_ext.metrics.convergence import read_curve, warning
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.registry import Recipe
from fairseq_ext.recipes.train import BEST_CHECKPOINT, LOG_FILE, best_checkpoint, system_dir, train_step
from fairseq_ext.recipes.translation.config import DOMAIN_SWITCH, MIX, OutputRun, Translation, TranslationSystem
from fairseq_ext.recipes.tune import first_run, steps_of_runs
from fairseq_ext.teacher.options import Teacher, TfidfTeacher

GATES_FILE = "gates.jsonl"
EXAMPLES_FILE = "examples.txt"
# Before the names of further sets in tables, where no domain has a colon in its name.
TEST, OOD = "test:", "ood:"
_TASK = "multi_domain_translation"
_THIS_MACHINE = Engine()
# Another version of these may clean otherwise.
_CLEANERS = ("sacremoses", "regex", "langid", "py3langid", "ftfy")
# Options that earlier versions did not have: their teachers stay valid while these have their defaults.
_LATER_OPTIONS = ("max_sentences", "precision", "subword_ngrams", "subword_model")


def stages_of(config: Translation) -> list[Stage]:
    """The stages of an experiment, in order; every system that is trained is one, under its own name."""
    trained = [name for name in config.systems if not config.is_base(name)]
    return [
        Stage("prepare", partial(preparation_steps, config)),
        Stage("teacher", partial(_teacher, config)),
        *(Stage(name, partial(_training, config, name), early=True) for name in trained),
        Stage("translate", partial(_translation, config), early=True),
        Stage("score", partial(_scores, config)),
        Stage("analyse", partial(_analyses, config)),
        Stage("report", partial(_report, config)),
    ]


def _teacher(config: Translation) -> list[Step]:
    if len(config.domains) > 1:
        return teacher_steps(config)[-1:]  # those before are steps of the stage prepare
    systems = [f"train: systems: {name}" for name, system in config.systems.items() if system.uses_teacher]
    outputs = [f"translate: outputs: {name}" for name, output in config.outputs.items() if output.uses_classifier]
    for name in [*systems, *outputs]:
        raise InputError(f"{config.path}: {name}: needs a classifier of domains, but there is one domain; leave it out")
    return []


def _training(config: Translation, name: str) -> list[Step]:
    runs = config.runs_of(name)
    steps = [step for run in runs for step in run_steps_of(config, run, runs)]
    return list({step.output: step for step in steps}.values())  # several runs may share labels


def _translation(config: Translation) -> list[Step]:
    steps = [translation_step(config, run) for run in config.all_output_runs()]
    examples = [examples_step(config)] if config.translate.examples else []
    return [*steps, *extra_set_steps(config), *examples]


# Measurement and report import these stages.


def _scores(config: Translation) -> list[Step]:
    from fairseq_ext.recipes.translation.measurement import scoring_step

    return [scoring_step(config)] if config.outputs else []


def _analyses(config: Translation) -> list[Step]:
    from fairseq_ext.recipes.translation.measurement import analysis_steps

    return list(analysis_steps(config).values())


def _report(config: Translation) -> list[Step]:
    from fairseq_ext.recipes.translation.report import report

    return [report(config)]


# Data


def preparation_steps(config: Translation, engine: Engine = _THIS_MACHINE) -> list[Step]:
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


def corpus_steps(config: Translation, engine: Engine = _THIS_MACHINE) -> list[Step]:
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
    train = Step(
        subwords,
        [splits],
        {"langs": langs, "seed": config.seed, **options, "with": versions("sentencepiece")},
        lambda folder: train_subwords(folder, splits, langs, options=config.subwords, seed=config.seed),
    )
    return [train]


def _encode_step(config: Translation) -> Step:
    langs, splits, subwords = config.langs, config.work_dir / "splits", config.subwords_dir
    return Step(
        config.work_dir / "encoded",
        [splits, subwords],
        {"langs": langs},
        lambda folder: encode_splits(folder, splits, subwords, langs),
    )


def _domains(config: Translation) -> Mapping[str, Sequence[str]]:
    if config.corpora.domains is not None:
        return config.corpora.domains
    return folder_entries(Path(config.corpora.folder or ""), config.langs)


@dataclass(frozen=True)
class _ImportDomain:
    """The task that imports one domain."""

    domains: Mapping[str, Sequence[str]]
    langs: tuple[str, str]
    on_bad_utf8: str
    markup: Markup
    downloads: Path

    def __call__(self, index: int, output: Path) -> None:
        name = sorted(self.domains)[index]
        import_domain(
            output,
            name,
            self.domains[name],
            self.langs,
            on_bad_utf8=self.on_bad_utf8,
            downloads=self.downloads,
            markup=self.markup,
        )
        sides = (islice(stream_lines(output / f"{name}.{lang}"), SAMPLE) for lang in self.langs)
        check_sides([Pair(*pair) for pair in zip(*sides, strict=True)], self.langs, name)


def _import_step(config: Translation, domains: Mapping[str, Sequence[str]], engine: Engine) -> Step:
    langs = config.langs
    corpora, downloads = config.corpora, config.work_dir / "downloads"
    task = _ImportDomain(domains, langs, corpora.on_bad_utf8, corpora.markup, downloads)
    # Reading is cheap and paths are relative to here, so no cluster is asked.
    here = Engine(engine.workers)

    def build(folder: Path) -> str:
        config.cleaning.check(langs)
        entries = [entry for name in sorted(domains) for entry in domains[name]]
        fetch_entries(entries, langs, task.downloads)
        tasks = folder / TASKS_DIR
        run_tasks(task, tasks, len(domains), here, "import")
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


def teacher_steps(config: Translation, engine: Engine = _THIS_MACHINE) -> list[Step]:
    """The steps that end with ``teacher``; the sets are made first if they are missing."""
    # scikit-learn takes a second to load; a dry run of other stages does without.
    from fairseq_ext.teacher.classifier import input_files

    splits, options = config.work_dir / "splits", _with_subwords(config)

    def build(folder: Path) -> str:
        from fairseq_ext.teacher.train import train_teacher

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


# Systems


def training_steps(config: Translation, name: str, extra: Sequence[str] = ()) -> list[Step]:
    """The steps that end with a trained system, or one run of it: first those it starts from, and its trials.

    Args:
        config: the experiment.
        name: the system, trained with all its seeds or for all domains, or a run such as ``gad@2``.
        extra: more options for fairseq-train, such as ``--fp16``; they apply to this system alone.
    """
    steps: dict[Path, Step] = {}
    siblings = config.runs_of(name.partition("@")[0])
    for run in [each for wanted in config.runs_of(name) for each in (first_run(wanted, siblings), wanted)]:
        start = config.start_of(run)
        before = training_steps(config, start.name) if start else []
        for step in [*before, *run_steps_of(config, run, siblings, extra)]:
            steps.setdefault(step.output, step)
    return list(steps.values())


def run_steps_of(config: Translation, run: Run, siblings: Sequence[Run], extra: Sequence[str] = ()) -> list[Step]:
    """The steps that make the labels of a run alone, and that train it; ``siblings`` are all runs of its system."""
    trainings = steps_of_runs(config, [run], partial(training_step, config, extra=extra), siblings)
    return [*_label_steps(config, run), *trainings]


def training_step(config: Translation, run: Run, extra: Sequence[str] = ()) -> Step:
    """The step that trains one run; the run that it starts from must be there."""
    system, start = run.system, config.start_of(run)
    if config.is_base(system.name):
        return base_step(config)
    inputs = [system.data or config.work_dir / "data-bin"]
    arguments = ["--task", _TASK, "--seed", str(run.seed), "--no-epoch-checkpoints"]
    made = [step.output for step in _label_steps(config, run)]
    if made or system.uses_teacher:
        inputs.append(made[-1] if made else config.work_dir / "teacher")
        arguments += ["--teacher-dir", str(inputs[-1])]
    if start:
        inputs.append(best_checkpoint(config, start.name))
        arguments += ["--finetune-from-model", str(inputs[-1])]
    chosen = {**system.options, **({"train-domains": run.domain} if run.domain else {})}
    arguments += as_arguments(chosen)
    options = {"system": chosen, EXTRA: list(extra), "seed": run.seed}
    step = train_step(config, run, inputs, arguments, options, extra=extra)

    def build(folder: Path) -> str | None:
        step.build(folder)
        is_base = run.system.name in config.base_systems
        return warning(run.name, read_curve(folder / LOG_FILE)) if is_base else None

    return replace(step, build=build)


def _label_steps(config: Translation, run: Run) -> list[Step]:
    """The steps that end with a run's labels, unless these are the classifier's as they are, or none."""
    system = config.systems[run.system.name]
    return [changed_labels_step(config, system)] if system.label_noise or system.unlabelled else []


def changed_labels_step(config: Translation, system: TranslationSystem) -> Step:
    """The step that changes the classifier's labels as a system says, as a directory for ``--teacher-dir``."""
    from fairseq_ext.teacher.changed_labels import write_changed_labels

    for name in system.unlabelled:
        check_choice(name, config.domains, system.place("unlabelled"))
    if system.label_noise and len(config.domains) < 2:
        raise InputError(f"{system.place('label_noise')}: a label of a single domain cannot be wrong; take it out")
    teacher, unlabelled = config.work_dir / "teacher", sorted(system.unlabelled)
    change: dict[str, Any] = {"noise": system.label_noise, "unlabelled": unlabelled, "seed": config.seed}
    folder = config.work_dir / "labels" / f"labels-{system.name}"
    build = partial(write_changed_labels, teacher=teacher, **change)
    return Step(folder, [teacher], {"version": 1, **change}, build, resumable=True)


# Translations of the test sets


def decoding(config: Translation, run: OutputRun) -> tuple[list[Path], FairseqCommand]:
    """The inputs of a decoding run, ``data-bin`` first, and its command of fairseq-generate.

    fairseq-interactive takes the same options.
    """
    checkpoint, data = best_checkpoint(config, run.run.name), config.work_dir / "data-bin"
    inputs = [data, checkpoint]
    arguments = ["--task", _TASK, "--path", str(checkpoint)]
    arguments += ["--bpe", "sentencepiece", "--sentencepiece-model", str(data / "sentencepiece.model")]
    if run.output.uses_classifier:
        inputs.append(config.work_dir / "teacher")
        arguments += ["--teacher-dir", str(inputs[-1])]
    arguments += as_arguments(run.output.options)
    # A system that was trained with tags understands nothing else.
    if run.output.system.has_tags and option_of(run.output.options, "domain-tags") is None:
        arguments += ["--domain-tags"]
    inputs += named_files(arguments, run.name, inputs)
    return inputs, FairseqCommand("generate", tuple(arguments), run.output.place)


def translation_dir(config: Translation, name: str) -> Path:
    """Where the translations of an output run lie, as ``DOMAIN.LANG``."""
    return config.work_dir / "translations" / name


def translation_step(config: Translation, run: OutputRun, extra: Sequence[str] = ()) -> Step:
    """The step that translates the test sets; ``extra`` are more options for fairseq-generate, such as ``--fp16``."""
    inputs, command = decoding(config, run)
    domain, output = run.run.domain, translation_dir(config, run.name)
    data, splits = config.work_dir / "data-bin", config.work_dir / "splits"
    subset = ["--gen-subset", f"test:{domain}" if domain else "test"]

    def build(folder: Path) -> None:
        gates = ["--gates-output", str(folder / GATES_FILE)] if run.output.gates else []
        printed = folder / "generate.txt"
        lengths = {
            name: len(read_lines(splits / name / f"test.{config.source_lang}"))
            for name in ([domain] if domain else read_domain_names(data / DOMAINS_FILE))
        }
        arguments = [str(data), *subset, *command.arguments, *gates, *extra]
        with progress(f"{run.name} translates", _look_at(printed, sum(lengths.values()))):
            run_fairseq("generate", arguments, output=printed, messages=folder / "generate.log")
        write_hypotheses(folder, printed, lengths, config.target_lang)

    inputs = [*inputs, splits]
    inputs += named_files(extra, run.name, inputs)
    options = {**run.output.in_file, EXTRA: list(extra), **({"domain": domain} if domain else {})}
    return Step(output, inputs, options, build, commands=[replace(command, extra=tuple(extra))], side_by_side=True)


def _look_at(printed: Path, total: int) -> Look:
    """A look at the share of the sentences that have been translated, by the lines printed so far."""

    def look() -> tuple[float, str] | None:
        done = printed.read_bytes().count(b"\nD-") if printed.exists() else 0
        return (min(done / total, 1.0), f"{done:,} of {total:,} sentences") if done else None

    return look


def write_hypotheses(folder: Path, printed: Path, lengths: Mapping[str, int], lang: str) -> None:
    """Split what fairseq-generate or -interactive printed into ``NAME.LANG``, in the order of the sets."""
    hypotheses = read_hypotheses(read_lines(printed))
    first = 0
    for name, length in lengths.items():
        missing = [number for number in range(first, first + length) if number not in hypotheses]
        if missing:
            raise InputError(
                f"{printed}: sentence {missing[0] - first + 1} of {name} was not translated; "
                "is it longer than --max-source-positions?"
            )
        lines = (hypotheses[number] + "\n" for number in range(first, first + length))
        (folder / f"{name}.{lang}").write_text("".join(lines), encoding="utf-8")
        first += length


def read_hypotheses(lines: Iterable[str]) -> dict[int, str]:
    """The best translation of every sentence, from the D- lines of fairseq-generate or -interactive."""
    found: dict[int, str] = {}
    for line in lines:
        if line.startswith("D-"):
            number, _, text = line[2:].split("\t", 2)
            found.setdefault(int(number), text)  # the first of an n-best list is the best
    return found


# Further test sets: the user's own, those out of domain, and the domain-switch set


def sets_dir(config: Translation) -> Path:
    """Where the sets lie, as ``SET.LANG``."""
    return config.work_dir / "extra-sets"


def extra_dir(config: Translation, name: str) -> Path:
    """Where an output run's translations of the sets lie, as ``SET.LANG``."""
    return config.work_dir / "extra" / name


def column_of(config: Translation, name: str) -> str:
    """What a set is called in tables of scores, where no domain has a colon in its name."""
    return f"{TEST if name in config.evaluate.tests else OOD}{name}"


def sets_for(config: Translation, run: OutputRun) -> list[str]:
    """The sets that an output run can translate; a model of one domain is for sets of that domain alone."""
    only = run.run.domain
    return [
        name
        for name, domain in config.evaluate.sets.items()
        if run.output.can_translate(domain) and only in (None, domain)
    ]


def extra_set_steps(config: Translation) -> list[Step]:
    """The steps that make the sets of ``evaluate: tests``, ``ood`` and ``domain_switch``, and translate them."""
    if not config.evaluate.sets:
        return []
    for name, test in config.evaluate.tests.items():
        if test.domain is not None:
            check_choice(test.domain, config.domains, f"{config.path}: evaluate: tests: {name}: domain")
    runs = [run for run in config.all_output_runs() if sets_for(config, run)]
    return [_sets_step(config), *(_extra_translation_step(config, run) for run in runs)]


def import_sets(folder: Path, config: Translation) -> None:
    """Write the sets: normalised like the corpora, not filtered but for pairs with an empty side."""
    langs = config.langs
    for name, entry in sorted(config.evaluate.corpora.items()):
        with tempfile.TemporaryDirectory(dir=folder, prefix=".import-") as temporary:
            imported = Path(temporary)
            on_bad_utf8, markup = config.corpora.on_bad_utf8, config.corpora.markup
            downloads = config.work_dir / "downloads"
            import_domain(imported, name, [entry], langs, on_bad_utf8=on_bad_utf8, downloads=downloads, markup=markup)
            pairs = read_parallel(*(imported / f"{name}.{lang}" for lang in langs))
        for lang, lines in zip(langs, zip(*pairs, strict=True), strict=True):
            normal = normalise_lines(lines, lang, config.cleaning.normalise) if config.cleaning.normalise else lines
            write_lines(folder / f"{name}.{lang}", normal)
    if config.evaluate.domain_switch:
        splits, count = config.work_dir / "splits", config.evaluate.domain_switch
        drawn = draw_pairs(splits, langs, count, config.split.max_words, config.seed)
        write_pairs(folder / DOMAIN_SWITCH, langs, drawn)


def with_guessed_domains(lines: Sequence[str], teacher: Path) -> list[str]:
    """Put before every line the tag of the domain that the classifier takes it for."""
    # The classifier's libraries take seconds to import; only what needs them pays.
    from fairseq_ext.data.teacher_labels import read_teacher_record
    from fairseq_ext.teacher.classifier import MODEL_FOLDER, load_classifier

    record = read_teacher_record(teacher)
    guesses = load_classifier(teacher / MODEL_FOLDER, record["backend"]).predict(lines).argmax(axis=1)
    return [f"{domain_tag(record['domains'][guess])} {line}" for guess, line in zip(guesses, lines, strict=True)]


def _sets_step(config: Translation) -> Step:
    langs = config.langs
    sets = {name: [entry] for name, entry in config.evaluate.corpora.items()}
    clean, switch = config.cleaning.normalise, config.evaluate.domain_switch
    return Step(
        sets_dir(config),
        inputs=[*check_entries(sets, langs), *([config.work_dir / "splits"] if switch else [])],
        options={
            # As with the corpora: what is fetched is known by its name, local files by their contents.
            "sets": {name: Path(e).name if entry_paths(e, langs) else e for name, [e] in sets.items()},
            "langs": langs,
            "on_bad_utf8": config.corpora.on_bad_utf8,
            "markup": config.corpora.markup,
            "normalise": clean.model_dump() if clean else None,
            **({"joined": switch, "max_words": config.split.max_words, "seed": config.seed} if switch else {}),
        },
        build=lambda folder: import_sets(folder, config),
    )


def _extra_translation_step(config: Translation, run: OutputRun) -> Step:
    inputs, command = decoding(config, run)
    sets, names = sets_dir(config), sets_for(config, run)
    # Only outputs with an oracle domain are given the set's.
    domains = [config.evaluate.sets[name] if run.output.uses_oracle and not run.run.domain else None for name in names]

    def build(folder: Path) -> None:
        texts = {name: read_lines(sets / f"{name}.{config.source_lang}") for name in names}
        lines = [line for text in texts.values() for line in text]
        if run.output.domain_source == "classifier":
            lines = with_guessed_domains(lines, config.work_dir / "teacher")
        else:
            known = [domain for domain, text in zip(domains, texts.values(), strict=True) for _ in text]
            lines = [f"{domain_tag(d)} {line}" if d else line for d, line in zip(known, lines, strict=True)]
        typed, printed = folder / "typed.txt", folder / "interactive.txt"
        write_lines(typed, lines)
        # All lines at once, so that batches hold lines of one length.
        reading = ["--input", str(typed), "--buffer-size", str(len(lines))]
        arguments = [str(inputs[0]), *command.arguments, *reading]
        run_fairseq("interactive", arguments, output=printed, messages=folder / "interactive.log")
        write_hypotheses(folder, printed, {name: len(text) for name, text in texts.items()}, config.target_lang)

    options = {**run.output.options, "source": run.output.domain_source, "sets": names, "domains": domains}
    folder = extra_dir(config, run.name)
    return Step(folder, [*inputs, sets], options, build, commands=[command], side_by_side=True)


# Examples


def examples_step(config: Translation) -> Step:
    """The step that translates ``translate: examples``, the lines of each decoding run with the first of its models."""
    examples = config.translate.examples
    runs = {name: config.output_runs(name)[0] for name in examples}
    made = {name: decoding(config, run) for name, run in runs.items()}

    def build(folder: Path) -> None:
        blocks = []
        for name, (inputs, command) in made.items():
            printed, typed = folder / f"{name}.txt", "".join(f"{line}\n" for line in examples[name])
            gates = ["--print-gates"] if runs[name].output.gates else []
            arguments = [str(inputs[0]), *command.arguments, *gates, "--buffer-size", str(len(examples[name]))]
            run_fairseq("interactive", arguments, output=printed, typed=typed, messages=folder / f"{name}.log")
            blocks.append(f"{name}\n" + format_examples(examples[name], read_lines(printed)))
        (folder / EXAMPLES_FILE).write_text("\n".join(blocks), encoding="utf-8")

    inputs = sorted({path for paths, _ in made.values() for path in paths})
    commands = [command for _, command in made.values()]
    arguments = {name: list(command.arguments) for name, (_, command) in made.items()}
    options = {"examples": examples, "arguments": arguments}
    return Step(config.work_dir / "examples", inputs, options, build, commands=commands, side_by_side=True)


def format_examples(sources: Sequence[str], printed: Iterable[str]) -> str:
    """Source, translation and the largest gate weights of every line, from what fairseq-interactive printed."""
    printed = list(printed)
    hypotheses = read_hypotheses(printed)
    gates = {int(number): text for number, text in re.findall(r"^G-(\d+)\t(.*)$", "\n".join(printed), re.MULTILINE)}
    width = max(map(len, sources))
    lines = []
    for number, source in enumerate(sources):
        line = f"  {source:<{width}}  →  {hypotheses[number]}"
        if number in gates:
            weights = [part.split("=") for part in gates[number].split()]
            largest = sorted(weights, key=lambda pair: -float(pair[1]))[:3]
            line += "\n" + " " * (width + 7) + " ".join(f"{name} {float(w):.2f}" for name, w in largest)
        lines.append(line)
    return "\n".join(lines) + "\n"


RECIPE = Recipe(Translation, preparation_steps, stages_of)

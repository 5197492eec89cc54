"""From corpora to fairseq's data directory, as steps: corpora, clean, splits, subwords, encoded, data-bin."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from fairseq_ext.corpora.blocks import index_path
from fairseq_ext.corpora.entries import check_entries, entry_paths, fetch_entries, folder_entries
from fairseq_ext.corpora.import_corpora import import_domain
from fairseq_ext.corpora.text_files import Pair, stream_lines
from fairseq_ext.engine.steps import Step, versions
from fairseq_ext.engine.tasks import TASKS_DIR, Engine, remove_tasks, run_tasks, task_output
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.filtering.cascade import check_filters
from fairseq_ext.filtering.clean import Cleaning, clean_corpora
from fairseq_ext.filtering.dictionary import Dictionary
from fairseq_ext.filtering.learn import has_to_learn, learn_from_corpora, learning_options
from fairseq_ext.filtering.sides import SAMPLE, check_sides
from fairseq_ext.text.binarise import binarise
from fairseq_ext.text.split import write_splits
from fairseq_ext.text.subwords import encode_splits, train_subwords

_THIS_MACHINE = Engine()
# Another version of these may clean otherwise.
_CLEANERS = ("sacremoses", "regex", "langid", "py3langid", "ftfy")


def preparation_steps(config: TranslationExperiment, engine: Engine = _THIS_MACHINE) -> list[Step]:
    """The steps of an experiment's data preparation, in order; all write below ``config.work_dir``."""
    return [*corpus_steps(config, engine), *subword_steps(config), _binarise_step(config, engine)]


def corpus_steps(config: TranslationExperiment, engine: Engine = _THIS_MACHINE) -> list[Step]:
    """The steps that end with ``splits``."""
    domains = _domains(config)
    learn = [_learning_step(config, sorted(domains))] if has_to_learn(config.clean.filters) else []
    return [
        _import_step(config, domains, engine),
        *learn,
        _clean_step(config, sorted(domains), engine),
        _split_step(config, sorted(domains)),
    ]


def subword_steps(config: TranslationExperiment) -> list[Step]:
    """The steps that make ``subwords``, unless another experiment's are used, and, with them, ``encoded``."""
    langs = _langs(config)
    splits, subwords = config.work_dir / "splits", subwords_dir(config)
    options = config.subwords.model_dump()
    train = Step(
        subwords,
        inputs=[splits],
        options={
            "langs": langs,
            "seed": config.seed,
            **{key: options[key] for key in options if key != "reuse"},
            "with": versions("sentencepiece"),
        },
        build=lambda folder: train_subwords(folder, splits, langs, options=config.subwords, seed=config.seed),
    )
    encode = Step(
        config.work_dir / "encoded",
        inputs=[splits, subwords],
        options={"langs": langs},
        build=lambda folder: encode_splits(folder, splits, subwords, langs),
    )
    return [encode] if config.subwords.reuse else [train, encode]


def _domains(config: TranslationExperiment) -> dict[str, list[str]]:
    if config.corpora.domains is not None:
        return config.corpora.domains
    return folder_entries(Path(config.corpora.folder or ""), _langs(config))


@dataclass(frozen=True)
class _ImportDomain:
    """The task that imports one domain."""

    domains: Mapping[str, Sequence[str]]
    langs: tuple[str, str]
    on_bad_utf8: str
    downloads: Path

    def __call__(self, index: int, output: Path) -> None:
        name = sorted(self.domains)[index]
        import_domain(
            output, name, self.domains[name], self.langs, on_bad_utf8=self.on_bad_utf8, downloads=self.downloads
        )
        sides = (islice(stream_lines(output / f"{name}.{lang}"), SAMPLE) for lang in self.langs)
        check_sides([Pair(*pair) for pair in zip(*sides, strict=True)], self.langs, name)


def _import_step(config: TranslationExperiment, domains: Mapping[str, Sequence[str]], engine: Engine) -> Step:
    langs = _langs(config)
    task = _ImportDomain(domains, langs, config.corpora.on_bad_utf8, config.work_dir / "downloads")
    # Reading is cheap and paths are relative to here, so no cluster is asked.
    here = Engine(engine.workers)

    def build(folder: Path) -> str:
        check_filters(config.clean.filters, langs)
        entries = [entry for name in sorted(domains) for entry in domains[name]]
        fetch_entries(entries, langs, task.downloads)
        tasks = folder / TASKS_DIR
        run_tasks(task, tasks, len(domains), here, "import")
        for index in range(len(domains)):
            for path in sorted(task_output(tasks, index).iterdir()):
                path.rename(folder / path.name)
        remove_tasks(tasks)
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
        options={"domains": names, "langs": langs, "on_bad_utf8": config.corpora.on_bad_utf8},
        build=build,
        resumable=True,
    )


def _learning_step(config: TranslationExperiment, domains: Sequence[str]) -> Step:
    langs, clean = _langs(config), config.clean
    corpora = config.work_dir / "corpora"
    return Step(
        config.work_dir / "learned",
        inputs=[*_texts(corpora, domains, langs), *_word_lists(clean)],
        options={"domains": domains, "langs": langs, **learning_options(clean)},
        build=lambda folder: learn_from_corpora(folder, corpora, domains, langs, clean),
    )


def _clean_step(config: TranslationExperiment, domains: Sequence[str], engine: Engine) -> Step:
    langs, clean = _langs(config), config.clean
    corpora = config.work_dir / "corpora"
    learned = config.work_dir / "learned" if has_to_learn(clean.filters) else None
    return Step(
        config.work_dir / "clean",
        inputs=[
            *_texts(corpora, domains, langs),
            *(index_path(corpora, name) for name in domains),  # what import counted is in the report
            *_word_lists(clean),
            *([learned] if learned else []),
        ],
        options={"domains": domains, "langs": langs, **dataclasses.asdict(clean), "with": versions(*_CLEANERS)},
        build=lambda folder: clean_corpora(folder, corpora, domains, langs, clean, engine, learned),
        resumable=True,
    )


def _word_lists(clean: Cleaning) -> list[Path]:
    dictionary = clean.filters.get("dictionary")
    assert dictionary is None or isinstance(dictionary, Dictionary)
    return [Path(dictionary.word_list)] if dictionary and dictionary.word_list else []


def _split_step(config: TranslationExperiment, domains: Sequence[str]) -> Step:
    langs, folder = _langs(config), config.work_dir / "clean"
    files = {name: (folder / f"{name}.{langs[0]}", folder / f"{name}.{langs[1]}") for name in domains}
    return Step(
        config.work_dir / "splits",
        inputs=_texts(folder, domains, langs),
        options={
            **dataclasses.asdict(config.split),
            "seed": config.seed,
            "domains": list(domains),
            "langs": langs,
        },
        build=lambda output: write_splits(output, files, langs, options=config.split, seed=config.seed),
    )


def _binarise_step(config: TranslationExperiment, engine: Engine) -> Step:
    langs = _langs(config)
    encoded, subwords = config.work_dir / "encoded", subwords_dir(config)
    here = Engine(engine.workers)
    return Step(
        config.work_dir / "data-bin",
        inputs=[encoded, subwords],
        options={"langs": langs},
        build=lambda folder: binarise(folder, encoded, subwords, langs, here),
        resumable=True,
    )


def subwords_dir(config: TranslationExperiment) -> Path:
    """Where the subwords are: the experiment's own, or those that it reuses."""
    return Path(config.subwords.reuse) if config.subwords.reuse else config.work_dir / "subwords"


def _texts(folder: Path, domains: Sequence[str], langs: tuple[str, str]) -> list[Path]:
    return [folder / f"{name}.{lang}" for name in domains for lang in langs]


def _langs(config: TranslationExperiment) -> tuple[str, str]:
    return config.source_lang, config.target_lang

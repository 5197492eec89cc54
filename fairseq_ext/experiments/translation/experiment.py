"""A translation experiment: what its file says, and the runs that this stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairseq_ext.corpora.entries import folder_entries
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.experiments.translation.outputs import Output, OutputRun, check_output
from fairseq_ext.experiments.translation.systems import TranslationSystem
from fairseq_ext.filtering.clean import Cleaning
from fairseq_ext.filtering.filters import Empty
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.corpus_metrics import DEFAULT_METRICS
from fairseq_ext.recipes.config import Run, expand, fitting_run, named_run
from fairseq_ext.teacher.options import Teacher, TfidfTeacher
from fairseq_ext.text.split import Split
from fairseq_ext.text.subwords import Subwords

JOINED = "JOINED"  # the set of sentences whose domain changes
AVERAGE = "AVG"  # a column of the tables, so no set may have this name


@dataclass(frozen=True)
class Corpora:
    """Where the text comes from: a folder of ``DOMAIN.LANG`` files *or* sources by domain.

    See :mod:`fairseq_ext.corpora.import_corpora` for the forms of a source. ``on_bad_utf8`` says what becomes of
    a pair with bytes that are no UTF-8: ``fail``, ``drop`` (the pair) or ``replace`` (by U+FFFD).
    """

    folder: str | None = None
    domains: dict[str, list[str]] | None = None
    on_bad_utf8: str = "fail"


@dataclass(frozen=True)
class Report:
    """What the report shows; outputs are names, in the file also patterns such as ``gad-*``.

    Attributes:
        main: outputs of the main tables; by default all but the variants under ``ablation``.
        ablation: outputs of the table of the ablation. The first is the whole system and stays in the main tables, the
            others are its variants.
        examples: sentences shown on which gates and classifier disagree.
        reading: Markdown file beside the experiment file, with words on the results.
    """

    main: list[str] = field(default_factory=list)
    ablation: list[str] = field(default_factory=list)
    examples: int = 3
    reading: str | None = None


@dataclass(frozen=True)
class OwnTest:
    """A test set of the user's own.

    Attributes:
        corpus: in one of the forms of :data:`fairseq_ext.corpora.entries.FORMS`.
        domain: that all of it is from; None where that is not known, or where it is from none of them.
    """

    corpus: str
    domain: str | None = None


@dataclass(frozen=True)
class Evaluate:
    """What is measured beyond the test sets, and how.

    Attributes:
        baseline: output that the marks in the tables compare with; by default the first, None without outputs.
        compare: outputs that all others are compared with in a table of their own; by default the base model trained
            further on all domains, and uniform weights, where there are such outputs.
        resamples: of the paired bootstrap.
        metrics: computed from text, of :data:`fairseq_ext.metrics.corpus_metrics.METRICS`.
        comet: local checkpoint of a COMET model; None for no COMET.
        ood: out-of-domain test sets by name, each a corpus in one of the forms of
            :data:`fairseq_ext.corpora.entries.FORMS`.
        tests: the user's own test sets by name, see :class:`OwnTest`.
        joined: how many sentences to make whose domain changes in the middle, as one more such set; 0 for none.
        speed: outputs to time.
        distance_model: folder of a Hugging Face encoder for the distances between domains; None for TF-IDF.
        distance_sentences: most sentences a domain for these distances.
        report: see :class:`Report`.
    """

    baseline: str | None = None
    compare: list[str] = field(default_factory=list)
    resamples: int = 1000
    metrics: list[str] = field(default_factory=lambda: list(DEFAULT_METRICS))
    comet: str | None = None
    ood: dict[str, str] = field(default_factory=dict)
    tests: dict[str, OwnTest] = field(default_factory=dict)
    joined: int = 0
    speed: list[str] = field(default_factory=list)
    distance_model: str | None = None
    distance_sentences: int = 2000
    report: Report = Report()

    @property
    def out_of_domain(self) -> list[str]:
        """The names of all sets of no domain, sorted."""
        return sorted([*self.ood, *([JOINED] if self.joined else [])])

    @property
    def sets(self) -> dict[str, str | None]:
        """All sets beside the held-out ones, by name: the domain that each is from, if it is known."""
        return {**dict.fromkeys(self.out_of_domain), **{name: test.domain for name, test in sorted(self.tests.items())}}

    @property
    def corpora(self) -> dict[str, str]:
        """By name, the corpora of the sets that are given by the file."""
        return {**self.ood, **{name: test.corpus for name, test in self.tests.items()}}


@dataclass(frozen=True)
class TranslationExperiment:
    """A whole experiment file.

    Attributes:
        path: where it was read from.
        systems: by name, none before the one that it starts from (``train`` in the file).
        outputs: by name (``translate``).
        examples: lines to translate and show, by output or run of one.
    """

    path: Path = field(metadata={"in_file": False})
    work_dir: Path
    source_lang: str
    target_lang: str
    corpora: Corpora
    seed: int = 1
    clean: Cleaning = Cleaning({"empty": Empty()})
    split: Split = Split()
    subwords: Subwords = Subwords()
    teacher: Teacher = TfidfTeacher()
    systems: Mapping[str, TranslationSystem] = field(default_factory=dict, metadata={"in_file": False})
    outputs: Mapping[str, Output] = field(default_factory=dict, metadata={"in_file": False})
    examples: Mapping[str, Sequence[str]] = field(default_factory=dict, metadata={"in_file": False})
    evaluate: Evaluate = field(default_factory=Evaluate)

    @property
    def domains(self) -> list[str]:
        """The domains, in order, as they are known by now.

        Raises:
            InputError: if they are given by a folder that cannot be read.
        """
        if self.corpora.domains is not None:
            return sorted(self.corpora.domains)
        # Where models are trained, the corpora need not be.
        binarised = self.work_dir / "data-bin" / DOMAINS_FILE
        if binarised.is_file():
            return read_domain_names(binarised)
        return sorted(folder_entries(Path(self.corpora.folder or ""), (self.source_lang, self.target_lang)))

    def runs(self, name: str) -> list[Run]:
        """The runs of a system, or the one run of this name.

        Raises:
            InputError: if there is no such system or run.
        """
        where = f"{self.path}: train: systems"
        system_name, separator, _ = name.partition("@")
        if system_name not in self.systems:
            raise InputError(f"{where}: no {system_name!r}; there are {', '.join(self.systems) or 'none'}")
        system = self.systems[system_name]
        runs = expand(system, self.seed, self.domains if system.per_domain else ())
        return [named_run(runs, name, f"{where}: {system_name}")] if separator else runs

    def start(self, run: Run) -> Run | None:
        """The run that a run starts from: the only one of that system, or the one of the same domain or seed.

        Raises:
            InputError: if there are several and none of them fits.
        """
        if run.system.start is None:
            return None
        return fitting_run(run, self.runs(run.system.start), f"{self.path}: train: systems")

    def output_runs(self, name: str) -> list[OutputRun]:
        """What an output expands to, or the one output run of this name.

        Raises:
            InputError: if there is no such output or run.
        """
        where = f"{self.path}: translate"
        output_name, separator, _ = name.partition("@")
        check_output(output_name, self.outputs, where)
        output = self.outputs[output_name]
        runs = [OutputRun.of(output, run) for run in self.runs(output.system.name)]
        return [named_run(runs, name, f"{where}: outputs: {output_name}")] if separator else runs

    def all_output_runs(self) -> list[OutputRun]:
        """The output runs of all outputs, in the order of the file."""
        return [run for name in self.outputs for run in self.output_runs(name)]

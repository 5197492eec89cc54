"""Re-ranking n-best lists with language models: tune, apply, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np

from fairseq_ext.corpora.text_files import read_lines_like, write_lines
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError, check_choice
from fairseq_ext.metrics.corpus_metrics import bleu_metric
from fairseq_ext.metrics.records import Records
from fairseq_ext.metrics.render import Page, write_report
from fairseq_ext.recipes.reranking.bleu import count_hypotheses
from fairseq_ext.recipes.reranking.evaluation import ALL, choose, evaluate, score_tables
from fairseq_ext.recipes.reranking.nbest import FIRST_BEST, ORACLE, WORDS, NBest, read_nbest
from fairseq_ext.recipes.reranking.sentence_scores import LanguageModelSource, score_texts
from fairseq_ext.recipes.reranking.tuning import Weights, find_weights


@dataclass(frozen=True)
class Features:
    """An n-best list and the sources of further features, as the command's options give them.

    Attributes:
        models: CHECKPOINT:DATA of fairseq's language models, by name.
        scores: cache of scores; None for a folder beside the list.
    """

    nbest: Path
    models: Mapping[str, str] = field(default_factory=dict)
    ngrams: Mapping[str, Path] = field(default_factory=dict)
    subwords: Mapping[str, Path] = field(default_factory=dict)
    word_count: bool = False
    scores: Path | None = None
    max_tokens: int = 4096
    cpu: bool = False

    def read(self) -> tuple[NBest, dict[str, str]]:
        """The list with all features, and the fingerprints of the language models by feature."""
        sources = self._sources()
        nbest = read_nbest(self.nbest)
        texts = nbest.all_texts()
        folder = self.scores or self.nbest.with_name(f"{self.nbest.name}.scores")
        columns = {source.name: score_texts(source, texts, folder) for source in sources}
        if self.word_count:
            columns[WORDS] = nbest.word_counts()
        return nbest.with_features(columns), {source.name: source.fingerprint for source in sources}

    def _sources(self) -> list[LanguageModelSource]:
        names = [*self.models, *self.ngrams]
        for name in self.models.keys() & self.ngrams.keys():
            raise InputError(f"--arpa {name}: --lm has this name already; give each its own")
        for name in self.subwords:
            check_choice(name, names, "--lm-subwords")
        sources = []
        for name, value in self.models.items():
            checkpoint, colon, data = value.rpartition(":")
            if not colon:
                raise InputError(
                    f"--lm {name}={value}: give NAME=CHECKPOINT:DATA, DATA being the folder with its dict.txt"
                )
            sources.append(
                LanguageModelSource.of_fairseq(
                    name,
                    Path(checkpoint),
                    Path(data),
                    self.subwords.get(name),
                    max_tokens=self.max_tokens,
                    cpu=self.cpu,
                )
            )
        return sources + [
            LanguageModelSource.of_arpa(name, path, self.subwords.get(name)) for name, path in self.ngrams.items()
        ]


def tune(
    features: Features, references: Path, output: Path, *, restarts: int = 20, seed: int = 1, tokenizer: str
) -> None:
    """Tune weights on a list with references, one a line, and write them."""
    nbest, sources = features.read()
    counts = count_hypotheses(bleu_metric(tokenizer), nbest, _read_references(references, nbest, features))
    found = find_weights(nbest, counts, restarts=restarts, seed=seed, sources=sources)
    found.write(output)
    scores = found.about["BLEU"]
    print(f"BLEU {scores['first_best']:.2f} first-best, {scores['tuned']:.2f} tuned: {output}")


def apply(features: Features, weights: Path, output: Path) -> None:
    """Write the best hypothesis of each sentence."""
    read = Weights.read(weights)
    nbest, sources = features.read()
    choice = nbest.best(read.for_list(nbest, sources, weights))
    with atomic_write(output) as temporary:
        write_lines(temporary, nbest.chosen(choice))


def report(
    features: Features,
    references: Path,
    weights: Sequence[Path],
    output: Path,
    *,
    also: Mapping[str, Path],
    groups: Path | None = None,
    resamples: int = 1000,
    seed: int = 1,
    tokenizer: str,
) -> None:
    """Write a report on one or several files of weights into a folder, and print it.

    Each file of weights is a row, named by it; ``also`` are other translations by row; ``groups`` is a file with the
    group of every sentence.
    """
    rows = [FIRST_BEST, *also, *(path.stem for path in weights)]
    if len({*rows, ORACLE}) < len(rows) + 1:
        raise InputError(f"--weights: the files' names become rows; {', '.join(rows)} and {ORACLE} must differ")
    read = {path: Weights.read(path) for path in weights}
    nbest, sources = features.read()
    wanted = _read_references(references, nbest, features)
    counts = count_hypotheses(bleu_metric(tokenizer), nbest, wanted)
    choices = choose(nbest, counts, {path.stem: own.for_list(nbest, sources, path) for path, own in read.items()})
    records, comparisons = evaluate(
        {name: nbest.chosen(choice) for name, choice in choices.items()},
        wanted,
        others={name: read_lines_like(path, wanted, references) for name, path in also.items()},
        groups=read_groups(groups, wanted, references),
        pairs=[(row, baseline) for baseline, row in combinations(rows, 2)],
        tokenizer=tokenizer,
        resamples=resamples,
        seed=seed,
    )
    summary = f"{len(wanted):,} sentences, {nbest.is_hypothesis.sum() / len(wanted):.1f} hypotheses of each."
    page = Page("Re-ranking", summary, {"Scores": score_tables(Records(records), tokenizer)}, comparisons)
    output.mkdir(parents=True, exist_ok=True)
    write_report(output, page, Records(records))
    print(page.markdown(), end="")


def _read_references(path: Path, nbest: NBest, features: Features) -> list[str]:
    return read_lines_like(path, [own[0] for own in nbest.texts], features.nbest)


def read_groups(path: Path | None, references: Sequence[str], references_path: Path) -> dict[str, np.ndarray]:
    """The indices of the sentences of each group, in order of appearance."""
    if path is None:
        return {}
    names = read_lines_like(path, references, references_path)
    for number, name in enumerate(names, start=1):
        if not name.strip() or name == ALL:
            raise InputError(f"{path}, line {number}: {name!r} is not a name of a group; name one for every sentence")
    return {name: np.flatnonzero(np.array(names) == name) for name in dict.fromkeys(names)}

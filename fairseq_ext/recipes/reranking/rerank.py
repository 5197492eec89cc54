"""Re-rank n-best lists with language models: tune, apply, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_ext.corpora.text_files import read_lines_like, write_lines
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError, check_choice
from fairseq_ext.metrics.corpus_metrics import bleu_metric
from fairseq_ext.metrics.records import Records
from fairseq_ext.metrics.render import Page, write_report
from fairseq_ext.recipes.reranking.evaluation import ALL, choose, count_hypotheses, evaluate, score_tables
from fairseq_ext.recipes.reranking.nbest import FIRST_BEST, ORACLE, WORDS, NBest, read_nbest
from fairseq_ext.recipes.reranking.sentence_scores import LanguageModelSource, score_texts
from fairseq_ext.recipes.reranking.tuning import Weights, find_weights


class Listed(NamedTuple):
    """An n-best list with all features, and the fingerprints of the language models by feature."""

    nbest: NBest
    sources: dict[str, str]
    path: Path


def read_list(
    path: Path,
    *,
    models: Mapping[str, str],
    ngrams: Mapping[str, Path],
    subwords: Mapping[str, Path],
    word_count: bool,
    scores: Path | None,
    max_tokens: int,
    cpu: bool,
) -> Listed:
    """Read an n-best list and add the scores of language models and, with ``word_count``, the number of words.

    Args:
        path: n-best list.
        models: fairseq language models, CHECKPOINT:DATA by name.
        ngrams: ARPA files by name.
        subwords: subwords by name of a language model; all other models are word-level.
        word_count: whether to add the number of words as a feature.
        scores: folder for cached scores; by default next to the list.
        max_tokens: maximum number of tokens in a batch.
        cpu: whether to leave a GPU unused.
    """
    for name in models.keys() & ngrams.keys():
        raise InputError(f"--arpa {name}: --lm already uses this name; choose another one")
    for name in subwords:
        check_choice(name, [*models, *ngrams], "--lm-subwords")
    sources = []
    for name, value in models.items():
        checkpoint, colon, data = value.rpartition(":")
        if not colon:
            raise InputError(f"--lm {name}={value}: give NAME=CHECKPOINT:DATA; DATA is the folder with dict.txt")
        files = Path(checkpoint), Path(data), subwords.get(name)
        sources.append(LanguageModelSource.of_fairseq(name, *files, max_tokens=max_tokens, cpu=cpu))
    sources += [LanguageModelSource.of_arpa(name, file, subwords.get(name)) for name, file in ngrams.items()]
    nbest = read_nbest(path)
    texts, folder = nbest.all_texts(), scores or path.with_name(f"{path.name}.scores")
    columns = {source.name: score_texts(source, texts, folder) for source in sources}
    if word_count:
        columns[WORDS] = nbest.word_counts()
    return Listed(nbest.with_features(columns), {source.name: source.fingerprint for source in sources}, path)


def tune(listed: Listed, references: Path, output: Path, *, restarts: int, seed: int, tokenizer: str) -> None:
    """Tune weights on a list with references, one per line, and write them."""
    counts = count_hypotheses(bleu_metric(tokenizer), listed.nbest, _read_references(references, listed))
    found = find_weights(listed.nbest, counts, restarts=restarts, seed=seed, sources=listed.sources)
    found.write(output)
    scores = found.about["BLEU"]
    print(f"BLEU {scores['first_best']:.2f} first-best, {scores['tuned']:.2f} tuned: {output}")


def apply(listed: Listed, weights: Path, output: Path) -> None:
    """Write the best hypothesis of each sentence."""
    choice = listed.nbest.best(Weights.read(weights).for_list(listed.nbest, listed.sources, weights))
    with atomic_write(output) as temporary:
        write_lines(temporary, listed.nbest.chosen(choice))


def report(
    listed: Listed,
    references: Path,
    weights: Sequence[Path],
    output: Path,
    *,
    also: Mapping[str, Path],
    groups: Path | None,
    resamples: int,
    seed: int,
    tokenizer: str,
) -> None:
    """Write a report on one or more files of weights to a folder, and print it.

    Each file of weights is a row with the name of the file. ``also`` has other translations by row; ``groups`` is a
    file with the group of each sentence.
    """
    rows = [FIRST_BEST, *also, *(path.stem for path in weights)]
    if len({*rows, ORACLE}) < len(rows) + 1:
        raise InputError(f"--weights: the row names {', '.join(rows)} and {ORACLE} must differ; rename the files")
    nbest, wanted = listed.nbest, _read_references(references, listed)
    read = {path.stem: Weights.read(path).for_list(nbest, listed.sources, path) for path in weights}
    choices = choose(nbest, count_hypotheses(bleu_metric(tokenizer), nbest, wanted), read)
    records, comparisons = evaluate(
        {name: nbest.chosen(choice) for name, choice in choices.items()},
        wanted,
        others={name: read_lines_like(path, wanted, references) for name, path in also.items()},
        groups=read_groups(groups, wanted, references) if groups else {},
        pairs=[(row, baseline) for baseline, row in combinations(rows, 2)],
        tokenizer=tokenizer,
        resamples=resamples,
        seed=seed,
    )
    summary = f"{len(wanted):,} sentences with {nbest.is_hypothesis.sum() / len(wanted):.1f} hypotheses on average."
    page = Page("Re-ranking", summary, {"Scores": score_tables(Records(records), tokenizer)}, comparisons)
    output.mkdir(parents=True, exist_ok=True)
    write_report(output, page, Records(records))
    print(page.markdown(), end="")


def _read_references(path: Path, listed: Listed) -> list[str]:
    return read_lines_like(path, [own[0] for own in listed.nbest.texts], listed.path)


def read_groups(path: Path, references: Sequence[str], references_path: Path) -> dict[str, np.ndarray]:
    """Read the sentence indices of each group. Groups are in order of appearance."""
    names = read_lines_like(path, references, references_path)
    for number, name in enumerate(names, start=1):
        if not name.strip() or name == ALL:
            raise InputError(f"{path}, line {number}: {name!r} cannot name a group; give each sentence another name")
    return {name: np.flatnonzero(np.array(names) == name) for name in dict.fromkeys(names)}

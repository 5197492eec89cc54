"""The step that re-ranks every domain's test list: ``reranked/ROW/DOMAIN.LANG``, with records and comparisons.

Every row, ``list`` without a language model and one for each of these, has weights of its own for every domain, tuned
for BLEU on the domain's validation list and kept as ``reranked/ROW/DOMAIN.json``. Perplexities are those of the
references of the test set, each sentence by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from fairseq_ext.corpora.text_files import read_lines, stream_lines, write_lines
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.corpus_metrics import bleu_metric, bleu_tokenizer
from fairseq_ext.recipes.reranking.config import KNESER_NEY, LIST, Reranking
from fairseq_ext.recipes.reranking.stages import arpa_file, data_dir, list_file
from fairseq_ext.recipes.train import best_checkpoint
from fairseq_ext.report.comparison import COMPARISONS_FILE, write_comparisons
from fairseq_ext.report.measurements import RECORDS_FILE, Record, write_records
from fairseq_ext.reranking.bleu_counts import count_hypotheses
from fairseq_ext.reranking.evaluation import choose, evaluate, with_others
from fairseq_ext.reranking.nbest import FIRST_BEST, NBest
from fairseq_ext.reranking.nbest_files import WORDS, read_nbest
from fairseq_ext.reranking.sentence_scores import LanguageModelSource, score_texts
from fairseq_ext.reranking.tuning import find_weights
from fairseq_ext.reranking.weights import Weights
from fairseq_ext.text.split import HELD_OUT
from fairseq_ext.text.subwords import MODEL_FILE

PERPLEXITY = "perplexity"
_VERSION = 2


@dataclass(frozen=True)
class DomainList:
    """A domain's part of an n-best list, with the references of its sentences."""

    nbest: NBest
    references: list[str]


def rerank_dir(config: Reranking) -> Path:
    """Where translations, weights, records and comparisons are written."""
    return config.work_dir / "reranked"


def tokenizer_of(config: Reranking) -> str:
    """sacrebleu's tokeniser for the target language."""
    return bleu_tokenizer(config.translation.target_lang)


def rerank_step(config: Reranking) -> Step:
    """The step that tunes weights on the validation lists and applies them to the test lists.

    Raises:
        InputError: if an output to compare with is not there.
    """
    outputs = _output_files(config)
    texts = [config.translation.text(domain, split) for domain in config.domains for split in HELD_OUT]
    models = [path for domain in config.domains for source in _sources(config, domain) for path in source.files]
    lists = [list_file(config, split) for split in HELD_OUT]
    options = {
        "version": _VERSION,
        "seed": config.seed,
        "rows": config.compared_names,
        "restarts": config.rerank.restarts,
        "resamples": config.rerank.resamples,
        "pairs": _pairs(config),
    }
    return Step(
        rerank_dir(config),
        [*lists, *texts, *dict.fromkeys(models), *outputs],
        options,
        lambda folder: _build(folder, config),
    )


def find_row_weights(
    valid: DomainList, models: Mapping[str, str], *, tokenizer: str, restarts: int, seed: int
) -> dict[str, Weights]:
    """Tune the weights of each row on a domain's validation list.

    Args:
        valid: the list, with all features.
        models: the features of language models, each of which makes a row, and the fingerprints of these.
        tokenizer: sacrebleu's, for BLEU.
        restarts: random starts of the tuning.
        seed: of these.
    """
    counts = count_hypotheses(bleu_metric(tokenizer), valid.nbest, valid.references)
    found = {}
    for row in (LIST, *models):
        nbest = valid.nbest.without(models.keys() - {row})
        sources = {name: models[name] for name in models if name == row}
        found[row] = find_weights(nbest, counts, restarts=restarts, seed=seed, sources=sources)
    return found


def _build(folder: Path, config: Reranking) -> None:
    valid, test = (_read_lists(config, split) for split in HELD_OUT)
    perplexities: list[Record] = []
    texts: dict[str, list[str]] = {}
    for domain in config.domains:
        models = _sources(config, domain)
        weights = _tune(config, domain, models, valid[domain])
        for row, own in weights.items():
            own.write(folder / row / f"{domain}.json")
        for row, lines in _translate(config, domain, models, test[domain], weights).items():
            write_lines(folder / row / f"{domain}.{config.translation.target_lang}", lines)
            texts.setdefault(row, []).extend(lines)
        perplexities += _perplexities(config, models, domain, test[domain].references)
    references = {domain: own.references for domain, own in test.items()}
    others = {name: _output(config, name, references) for name in config.translation.outputs}
    records, comparisons = evaluate(
        with_others(texts, others),
        [line for own in references.values() for line in own],
        groups={domain: np.array(place) for domain, place in _places(references).items()},
        pairs=_pairs(config),
        tokenizer=tokenizer_of(config),
        resamples=config.rerank.resamples,
        seed=config.seed,
    )
    write_records(folder / RECORDS_FILE, [*records, *perplexities])
    write_comparisons(folder / COMPARISONS_FILE, comparisons)


def _pairs(config: Reranking) -> list[tuple[str, str]]:
    """Rows and their baselines; by default every language model against what needs none."""
    without = (FIRST_BEST, *config.translation.outputs, LIST)
    compared = config.compare or dict.fromkeys(config.models, without)
    return [(row, baseline) for row, baselines in compared.items() for baseline in baselines]


# Language models


def _sources(config: Reranking, domain: str) -> list[LanguageModelSource]:
    """The language models of a domain, named like their rows."""
    subwords, options = config.translation.data / MODEL_FILE, config.rerank
    of_fairseq = partial(LanguageModelSource.of_fairseq, paths="", max_tokens=options.max_tokens, cpu=options.cpu)
    data = data_dir(config, domain)
    ngrams = [LanguageModelSource.of_arpa(KNESER_NEY, arpa_file(config, domain), subwords)]
    return [
        *(ngrams if config.kneser_ney else []),
        *(of_fairseq(name, best_checkpoint(config, f"{name}@{domain}"), data, subwords) for name in config.systems),
    ]


def _tune(
    config: Reranking, domain: str, models: Sequence[LanguageModelSource], valid: DomainList
) -> dict[str, Weights]:
    scored = DomainList(_with_scores(config, domain, models, valid.nbest), valid.references)
    fingerprints = {source.name: source.fingerprint for source in models}
    restarts, seed = config.rerank.restarts, config.seed
    return find_row_weights(scored, fingerprints, tokenizer=tokenizer_of(config), restarts=restarts, seed=seed)


def _translate(
    config: Reranking,
    domain: str,
    models: Sequence[LanguageModelSource],
    test: DomainList,
    weights: Mapping[str, Weights],
) -> dict[str, list[str]]:
    """The translations of a domain's test set by row."""
    nbest = _with_scores(config, domain, models, test.nbest)
    counts = count_hypotheses(bleu_metric(tokenizer_of(config)), nbest, test.references)
    by_row = {row: own.in_order(nbest.names) for row, own in weights.items()}
    return {row: nbest.chosen(choice) for row, choice in choose(nbest, counts, by_row).items()}


def _with_scores(config: Reranking, domain: str, models: Sequence[LanguageModelSource], nbest: NBest) -> NBest:
    texts, folder = nbest.all_texts(), _scores_dir(config, domain)
    scores = {source.name: score_texts(source, texts, folder) for source in models}
    return nbest.with_features({WORDS: nbest.word_counts(), **scores})


def _perplexities(
    config: Reranking, models: Sequence[LanguageModelSource], domain: str, references: Sequence[str]
) -> Iterator[Record]:
    """Of the test set, per subword and end of sentence."""
    tokens = sum(len(line.split()) + 1 for line in stream_lines(config.translation.pieces(domain, "test")))
    for source in models:
        value = math.exp(-score_texts(source, references, _scores_dir(config, domain)).sum() / tokens)
        yield Record(system=source.name, run=source.name, domain=domain, metric=PERPLEXITY, value=value, n=tokens)


def _scores_dir(config: Reranking, domain: str) -> Path:
    return config.work_dir / "scores" / domain


# Lists, references and translations of the translation experiment


def _read_lists(config: Reranking, split: str) -> dict[str, DomainList]:
    """The parts of a list, which has the sentences of all domains in their order.

    Raises:
        InputError: if there are not as many references as sentences.
    """
    references = {domain: read_lines(config.translation.text(domain, split)) for domain in config.domains}
    path, count = list_file(config, split), sum(map(len, references.values()))
    nbest = read_nbest(path)
    if count != len(nbest.texts):
        raise InputError(
            f"{path}: has {len(nbest.texts)} sentences, and the {split} sets of {config.translation.work_dir} {count}; "
            "run that experiment, and this one from translate on, again"
        )
    places = _places(references)
    return {domain: DomainList(nbest.part(places[domain]), own) for domain, own in references.items()}


def _places(references: Mapping[str, Sequence[str]]) -> dict[str, range]:
    """Where each domain's sentences are among all."""
    ends = accumulate(map(len, references.values()), initial=0)
    return {domain: range(*bounds) for domain, bounds in zip(references, pairwise(ends), strict=True)}


def _output_files(config: Reranking) -> list[Path]:
    given = config.translation
    files = [given.output(name, domain) for name in given.outputs for domain in config.domains]
    for path in files:
        if not path.is_file():
            raise InputError(
                f"{config.path}: translation: outputs: {path.parent.name!r} has no {path}; run the stage translate of "
                "the translation experiment"
            )
    return files


def _output(config: Reranking, name: str, references: Mapping[str, Sequence[str]]) -> list[str]:
    """An output of the translation experiment, in the order of the domains.

    Raises:
        InputError: if it is of another test set.
    """
    found: list[str] = []
    for domain, own in references.items():
        path = config.translation.output(name, domain)
        lines = read_lines(path)
        if len(lines) != len(own):
            raise InputError(
                f"{path}: {len(lines)} lines, and the test set has {len(own)}; run the translation experiment again"
            )
        found += lines
    return found

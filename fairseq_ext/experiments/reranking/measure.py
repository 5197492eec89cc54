"""Re-rank the test list of each domain to ``reranked/ROW/DOMAIN.LANG``, and write records and comparisons.

The rows are ``list``, without a language model, and one for each language model. Each row has separate weights for each
domain, tuned for BLEU on the domain's validation list and saved as ``reranked/ROW/DOMAIN.json``. Perplexities are
measured on the references of the test set, each sentence separately.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.json_file import write_json
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.dagru import KNESER_NEY
from fairseq_ext.experiments.metrics.comparison import COMPARISONS_FILE, write_comparisons
from fairseq_ext.experiments.metrics.corpus_metrics import bleu_metric, bleu_tokenizer
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, Record, write_records
from fairseq_ext.experiments.reranking.config import LIST, Reranking
from fairseq_ext.experiments.reranking.evaluation import bleu_of_choice, choose, count_hypotheses, evaluate
from fairseq_ext.experiments.reranking.nbest import FIRST_BEST, WORDS, NBest, read_nbest
from fairseq_ext.experiments.reranking.sentence_scores import LanguageModelSource, score_texts
from fairseq_ext.experiments.reranking.tuning import find_weights
from fairseq_ext.experiments.train import best_checkpoint
from fairseq_ext.text.split import HELD_OUT
from fairseq_ext.text.subwords import MODEL_FILE
from fairseq_ext.text.text_files import read_lines, read_lines_like, stream_lines, write_lines

PERPLEXITY = "perplexity"
_VERSION = 3

# Lines of a split by domain.
References = Mapping[str, Sequence[str]]


def rerank_step(config: Reranking) -> Step:
    """Return the step that tunes weights on the validation lists and applies them to the test lists."""
    given = config.translation
    outputs = [given.output(name, domain) for name in given.outputs for domain in config.domains]
    texts = [given.text(domain, split) for domain in config.domains for split in HELD_OUT]
    models = [path for domain in config.domains for source in _sources(config, domain) for path in source.files]
    lists = [config.list_file(split) for split in HELD_OUT]
    options = {
        "version": _VERSION,
        "seed": config.seed,
        "rows": config.compared_names,
        "restarts": config.rerank.restarts,
        "resamples": config.rerank.resamples,
        "pairs": _pairs(config),
    }
    return Step(
        config.work_dir / "reranked",
        [*lists, *texts, *dict.fromkeys(models), *outputs],
        options,
        partial(_build, config=config),
    )


def _build(folder: Path, config: Reranking) -> None:
    given, tokenizer = config.translation, bleu_tokenizer(config.translation.target_lang)
    references = {
        split: {domain: read_lines(given.text(domain, split)) for domain in config.domains} for split in HELD_OUT
    }
    lists = {split: _read_list(config, split, own) for split, own in references.items()}
    texts: dict[str, list[str]] = {}
    perplexities: list[Record] = []
    for domain in config.domains:
        sources, scores = _sources(config, domain), config.work_dir / "scores" / domain
        valid, test = (_with_scores(lists[split][domain], sources, scores) for split in HELD_OUT)
        counts = {
            split: count_hypotheses(bleu_metric(tokenizer), nbest, references[split][domain])
            for split, nbest in zip(HELD_OUT, (valid, test), strict=True)
        }
        weights = _tune(folder, config, domain, sources, valid, counts["valid"])
        for row, choice in choose(test, counts["test"], weights).items():
            lines = test.chosen(choice)
            write_lines(folder / row / f"{domain}.{given.target_lang}", lines)
            texts.setdefault(row, []).extend(lines)
        # Perplexity is per subword, and one end of sentence per line.
        tokens = sum(len(line.split()) + 1 for line in stream_lines(given.pieces(domain, "test")))
        for source in sources:
            value = math.exp(-score_texts(source, references["test"][domain], scores).sum() / tokens)
            of = Record(system=source.name, run=source.name, domain=domain, metric=PERPLEXITY, value=value, n=tokens)
            perplexities.append(of)
    records, comparisons = evaluate(
        texts,
        [line for own in references["test"].values() for line in own],
        others={name: _read_output(config, name, references["test"]) for name in given.outputs},
        groups={domain: np.array(place) for domain, place in _places(references["test"]).items()},
        pairs=_pairs(config),
        tokenizer=tokenizer,
        resamples=config.rerank.resamples,
        seed=config.seed,
    )
    write_records(folder / RECORDS_FILE, [*records, *perplexities])
    write_comparisons(folder / COMPARISONS_FILE, comparisons)


def _tune(
    folder: Path,
    config: Reranking,
    domain: str,
    sources: Sequence[LanguageModelSource],
    nbest: NBest,
    counts: np.ndarray,
) -> dict[str, np.ndarray]:
    """Tune and write the weights of each row: without a language model, and with each language model."""
    models = {source.name for source in sources}
    options = {"restarts": config.rerank.restarts, "seed": config.seed}
    weights = {}
    for row in (LIST, *(source.name for source in sources)):
        features = nbest.without(models - {row})
        by_name = dict(zip(features.names, find_weights(features, counts, **options).tolist(), strict=True))
        weights[row] = np.array([by_name.get(name, 0.0) for name in nbest.names])
        choices = {"first_best": np.zeros(len(counts), dtype=int), "tuned": nbest.best(weights[row])}
        scores = {name: round(bleu_of_choice(counts, choice), 4) for name, choice in choices.items()}
        (folder / row).mkdir(exist_ok=True)
        write_json(folder / row / f"{domain}.json", {"weights": by_name, "BLEU": scores, **options})
    return weights


def _pairs(config: Reranking) -> list[tuple[str, str]]:
    """Return pairs of rows and baselines; by default each language model against all rows without one."""
    without = (FIRST_BEST, *config.translation.outputs, LIST)
    compared = config.compare or dict.fromkeys(config.models, without)
    return [(row, baseline) for row, baselines in compared.items() for baseline in baselines]


def _sources(config: Reranking, domain: str) -> list[LanguageModelSource]:
    """Return the language models of a domain, with the names of their rows."""
    subwords, options = config.translation.data / MODEL_FILE, config.rerank
    of_fairseq = partial(LanguageModelSource.of_fairseq, max_tokens=options.max_tokens, cpu=options.cpu)
    data = config.lm_data(domain)
    ngrams = [LanguageModelSource.of_arpa(KNESER_NEY, config.arpa_file(domain), subwords)]
    return [
        *(ngrams if config.kneser_ney else []),
        *(of_fairseq(name, best_checkpoint(config, f"{name}@{domain}"), data, subwords) for name in config.systems),
    ]


def _with_scores(nbest: NBest, sources: Sequence[LanguageModelSource], folder: Path) -> NBest:
    scores = {source.name: score_texts(source, nbest.all_texts(), folder) for source in sources}
    return nbest.with_features({WORDS: nbest.word_counts(), **scores})


def _read_list(config: Reranking, split: str, references: References) -> dict[str, NBest]:
    """Read a list with the sentences of all domains in order, and split it by domain."""
    path, count = config.list_file(split), sum(map(len, references.values()))
    nbest = read_nbest(path)
    if count != len(nbest.texts):
        raise InputError(
            f"{path}: has {len(nbest.texts)} sentences, but the {split} sets of {config.translation.work_dir} have "
            f"{count}; run that experiment again, then this one with --from translate"
        )
    return {domain: nbest.part(place) for domain, place in _places(references).items()}


def _places(references: References) -> dict[str, range]:
    """Return the index range of each domain's sentences."""
    ends = accumulate(map(len, references.values()), initial=0)
    return {domain: range(*bounds) for domain, bounds in zip(references, pairwise(ends), strict=True)}


def _read_output(config: Reranking, name: str, references: References) -> list[str]:
    """Read an output of the translation experiment, in the order of the domains."""
    given = config.translation
    by_domain = (
        read_lines_like(given.output(name, domain), own, given.text(domain, "test"))
        for domain, own in references.items()
    )
    return [line for lines in by_domain for line in lines]

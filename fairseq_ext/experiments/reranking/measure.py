"""Re-rank the test list of each domain to ``reranked/ROW/DOMAIN.LANG``, and write records and comparisons.

The rows are ``list``, without a language model, and one for each language model. Each row has separate weights for each
domain, tuned for BLEU on the domain's validation list and saved as ``reranked/ROW/DOMAIN.json``. Perplexities are
measured on the references of the test set, each sentence separately. ``scores`` has the scores of language models.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import quieten_fairseq
from fairseq_ext.base.json_file import write_json
from fairseq_ext.base.provenance import provenance_of
from fairseq_ext.base.steps import Step, run_step
from fairseq_ext.experiments.dagru import KNESER_NEY
from fairseq_ext.experiments.metrics.bootstrap import resampled_sums
from fairseq_ext.experiments.metrics.comparison import COMPARISONS_FILE, Comparison, compare_resamples
from fairseq_ext.experiments.metrics.corpus_metrics import SacrebleuMetric, bleu_metric, bleu_tokenizer
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, Record, write_rows
from fairseq_ext.experiments.ngrams import NgramModel
from fairseq_ext.experiments.reranking.choices import bleu_of_choice, choose, count_hypotheses, find_weights
from fairseq_ext.experiments.reranking.config import LIST, Reranking
from fairseq_ext.experiments.reranking.nbest import FIRST_BEST, WORDS, NBest, read_nbest
from fairseq_ext.experiments.train import best_checkpoint
from fairseq_ext.text.split import HELD_OUT
from fairseq_ext.text.subwords import DICT_FILE, MODEL_FILE, encode_lines, load_subwords
from fairseq_ext.text.text_files import read_lines, read_lines_like, stream_lines, write_lines

PERPLEXITY = "perplexity"
ALL = "all"  # set of all sentences
_VERSION, _SCORES_VERSION = 3, 2
_SCORES_FILE = "scores.npy"

# Lines of a split by domain.
References = Mapping[str, Sequence[str]]


def rerank_step(config: Reranking) -> Step:
    """Return the step that tunes weights on the validation lists and applies them to the test lists."""
    translation = config.translation
    outputs = [translation.output(name, domain) for name in translation.outputs for domain in config.domains]
    texts = [translation.text(domain, split) for domain in config.domains for split in HELD_OUT]
    models = [path for domain in config.domains for model in _models(config, domain) for path in model.files]
    lists = [config.list_file(split) for split in HELD_OUT]
    options = {
        "version": _VERSION,
        "seed": config.seed,
        "rows": config.compared_names,
        "restarts": config.rerank.restarts,
        "resamples": config.rerank.resamples,
        "pairs": _pairs(config),
    }
    inputs = [*lists, *texts, *dict.fromkeys(models), *outputs]
    return Step(config.work_dir / "reranked", inputs, options, partial(_build, config=config))


def _build(folder: Path, config: Reranking) -> None:
    translation, tokenizer = config.translation, bleu_tokenizer(config.translation.target_lang)
    references = {
        split: {domain: read_lines(translation.text(domain, split)) for domain in config.domains} for split in HELD_OUT
    }
    lists = {split: _read_list(config, split, by_domain) for split, by_domain in references.items()}
    texts: dict[str, list[str]] = {}
    perplexities: list[Record] = []
    for domain in config.domains:
        models, scores = _models(config, domain), config.work_dir / "scores" / domain
        valid, test = (_with_scores(lists[split][domain], models, scores) for split in HELD_OUT)
        counts = {
            split: count_hypotheses(bleu_metric(tokenizer), nbest, references[split][domain])
            for split, nbest in zip(HELD_OUT, (valid, test), strict=True)
        }
        weights = _tune(folder, config, domain, valid, counts["valid"])
        for row, choice in choose(test, counts["test"], weights).items():
            lines = test.chosen(choice)
            write_lines(folder / row / f"{domain}.{translation.target_lang}", lines)
            texts.setdefault(row, []).extend(lines)
        # Perplexity is per subword, and one end of sentence per line.
        tokens = sum(len(line.split()) + 1 for line in stream_lines(translation.pieces(domain, "test")))
        for model in models:
            value = math.exp(-score_texts(model, references["test"][domain], scores).sum() / tokens)
            of = Record(system=model.name, run=model.name, domain=domain, metric=PERPLEXITY, value=value, n=tokens)
            perplexities.append(of)
    others = {name: _read_output(config, name, references["test"]) for name in translation.outputs}
    records, comparisons = evaluate(
        {FIRST_BEST: texts[FIRST_BEST], **others, **texts},
        [line for lines in references["test"].values() for line in lines],
        {domain: np.array(place) for domain, place in _places(references["test"]).items()},
        _pairs(config),
        tokenizer=tokenizer,
        resamples=config.rerank.resamples,
        seed=config.seed,
    )
    write_rows(folder / RECORDS_FILE, [*records, *perplexities])
    write_rows(folder / COMPARISONS_FILE, comparisons)


def _tune(folder: Path, config: Reranking, domain: str, nbest: NBest, counts: np.ndarray) -> dict[str, np.ndarray]:
    """Tune and write the weights of each row: without a language model, and with each language model."""
    options = {"restarts": config.rerank.restarts, "seed": config.seed}
    weights = {}
    for row in (LIST, *config.models):
        features = nbest.without({*config.models} - {row})
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


# Scores of translations


def evaluate(
    texts: Mapping[str, Sequence[str]],
    references: Sequence[str],
    groups: Mapping[str, np.ndarray],
    pairs: Sequence[tuple[str, str]],
    *,
    tokenizer: str,
    resamples: int,
    seed: int,
) -> tuple[list[Record], list[Comparison]]:
    """Score translations by row, and compare pairs of rows with a paired bootstrap over sentences.

    Args:
        texts: translations by row.
        references: one reference per sentence.
        groups: indices of sentences by group, which are scored in addition to the set of all sentences.
        pairs: rows and their baselines.
        tokenizer: sacrebleu tokeniser for BLEU.
        resamples: number of bootstrap resamples.
        seed: random seed of the resamples.
    """
    sets = {ALL: np.arange(len(references)), **groups}
    records: list[Record] = []
    scores: dict[tuple[str, str, str], np.ndarray] = {}  # by metric, row and set: the score, then R resamples (1+R)
    for metric_name, metric in score_metrics(tokenizer).items():
        for row, counts in zip(texts, metric.count(list(texts.values()), references), strict=True):
            for name, rows in sets.items():
                # The same seed draws the same sentences, so resamples are paired.
                sums = resampled_sums(counts[rows], resamples, [seed, *name.encode()])
                values = scores[metric_name, row, name] = np.array([metric.score(draw) for draw in sums.tolist()])
                of = Record(system=row, run=row, domain=name, metric=metric_name, value=float(values[0]), n=len(rows))
                records.append(of)
    comparisons = [
        compare_resamples(
            row, baseline, metric, name, scores[metric, row, name] - scores[metric, baseline, name], len(rows)
        )
        for row, baseline in pairs
        for metric in score_metrics(tokenizer)
        for name, rows in sets.items()
    ]
    return records, comparisons


def score_metrics(tokenizer: str) -> dict[str, SacrebleuMetric]:
    """Return the metrics of translations, BLEU with a tokeniser of sacrebleu."""
    return {"BLEU": bleu_metric(tokenizer), "chrF": SacrebleuMetric(CHRF)}


# Texts


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
    translation = config.translation
    by_domain = (
        read_lines_like(translation.output(name, domain), lines, translation.text(domain, "test"))
        for domain, lines in references.items()
    )
    return [line for lines in by_domain for line in lines]


# Scores of language models


class SentenceModel(NamedTuple):
    """A language model of subwords. Its scores depend on the contents of ``files``."""

    name: str  # of its row
    files: Sequence[Path]
    score: Callable[[Sequence[str]], np.ndarray]  # N texts → N natural logarithms of their probabilities


def _models(config: Reranking, domain: str) -> list[SentenceModel]:
    """Return the language models of a domain."""
    subwords, data, ngrams = config.translation.data / MODEL_FILE, config.lm_data(domain), config.ngram_file(domain)
    checkpoints = {name: best_checkpoint(config, f"{name}@{domain}") for name in config.systems}

    def by_ngrams(texts: Sequence[str]) -> np.ndarray:
        return NgramModel.load(ngrams).score(list(encode_lines(load_subwords(subwords), texts)))

    def by_fairseq(checkpoint: Path, texts: Sequence[str]) -> np.ndarray:
        # Imported here because this loads torch, which cached scores do not need.
        from fairseq_ext.experiments.scoring import LanguageModel

        quieten_fairseq()
        model = LanguageModel.load(checkpoint, data, cpu=config.rerank.cpu)
        return model.score_lines(encode_lines(load_subwords(subwords), texts), config.rerank.max_tokens)

    return [
        *([SentenceModel(KNESER_NEY, [ngrams, subwords], by_ngrams)] if config.kneser_ney else []),
        *(
            SentenceModel(name, [path, data / DICT_FILE, subwords], partial(by_fairseq, path))
            for name, path in checkpoints.items()
        ),
    ]


def _with_scores(nbest: NBest, models: Sequence[SentenceModel], folder: Path) -> NBest:
    texts = nbest.all_texts()
    lengths = [float(len(text.split())) for text in texts]
    return nbest.with_features({WORDS: lengths, **{model.name: score_texts(model, texts, folder) for model in models}})


def score_texts(model: SentenceModel, texts: Sequence[str], folder: Path) -> np.ndarray:
    """Score N single-line texts: N. Equal texts are scored once.

    Scores are cached in ``folder``, in a separate directory for each model and set of texts.
    """
    distinct = list(dict.fromkeys(texts))
    options = {"version": _SCORES_VERSION, "texts": hashlib.sha256("\n".join(distinct).encode()).hexdigest()}
    output = folder / f"{model.name}-{provenance_of(model.name, model.files, options).fingerprint[:16]}"
    run_step(Step(output, model.files, options, lambda made: np.save(made / _SCORES_FILE, model.score(distinct))))
    scores = dict(zip(distinct, np.load(output / _SCORES_FILE), strict=True))
    return np.array([scores[text] for text in texts])

"""The step that re-ranks every domain's test list: ``reranked/scores.json``, and ``reranked/ROW/DOMAIN.LANG``.

Every row, ``list`` without a language model and one for each of these, has weights of its own for every domain, tuned
for BLEU on the domain's validation list. The record is that of :func:`fairseq_ext.reranking.report.compare` with the
domains as groups, and by row and domain ``weights``, the BLEU of the validation list as ``tuned``, and of language
models the ``perplexity`` of the references, each sentence by itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from fairseq_ext.corpora.text_files import read_lines, stream_lines, write_lines
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.reranking.config import KNESER_NEY, LIST, WORDS, RerankingExperiment
from fairseq_ext.experiments.reranking.language_models import arpa_file, data_dir
from fairseq_ext.experiments.reranking.translate import list_file
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.corpus_metrics import USUAL_TOKENIZER, bleu_metric, bleu_tokenizer
from fairseq_ext.recipes.train import best_checkpoint
from fairseq_ext.reranking.bleu_counts import count_hypotheses
from fairseq_ext.reranking.nbest import NBest
from fairseq_ext.reranking.nbest_files import read_nbest
from fairseq_ext.reranking.report import choose, compare
from fairseq_ext.reranking.sentence_scores import LanguageModelSource, score_texts
from fairseq_ext.reranking.tuning import bleu_of_choice, first_weights, tune_weights
from fairseq_ext.text.split import HELD_OUT

SCORES_FILE = "reranked/scores.json"
_VERSION = 1
_NOT_MEASURING = ("max_tokens", "cpu", "reading")


@dataclass(frozen=True)
class DomainList:
    """A domain's part of a list.

    Attributes:
        nbest: its hypotheses, with all features.
        references: of its sentences.
        tokenizer: sacrebleu's, for BLEU.
    """

    nbest: NBest
    references: list[str]
    tokenizer: str = USUAL_TOKENIZER

    @property
    def counts(self) -> np.ndarray:
        """What BLEU counts in the hypotheses: S×K×10."""
        return count_hypotheses(bleu_metric(self.tokenizer), self.nbest, self.references)

    def without(self, features: set[str]) -> NBest:
        """The list as if it had no such features."""
        kept = [number for number, name in enumerate(self.nbest.names) if name not in features]
        return NBest(self.nbest.texts, [self.nbest.names[n] for n in kept], self.nbest.features[..., kept])


@dataclass(frozen=True)
class Reranked:
    """What came of a domain.

    Attributes:
        choices: a hypothesis of every test sentence, by row.
        weights: of features, by row.
        tuned: BLEU of the validation list, by row.
    """

    choices: Mapping[str, np.ndarray]
    weights: Mapping[str, Mapping[str, float]]
    tuned: Mapping[str, float]


def reranking_step(config: RerankingExperiment) -> Step:
    """The step that tunes weights on the validation lists and applies them to the test lists.

    Raises:
        InputError: if an output to compare with is not there.
    """
    outputs = _output_files(config)
    texts = [config.translation.text(domain, split) for domain in config.domains for split in HELD_OUT]
    models = [path for domain in config.domains for source in sources(config, domain) for path in source.files]
    options = {key: value for key, value in asdict(config.rerank).items() if key not in _NOT_MEASURING}
    if (tokenizer := bleu_tokenizer(config.translation.target_lang)) != USUAL_TOKENIZER:
        options["tokenizer"] = tokenizer
    if outputs:
        options["outputs"] = config.translation.outputs
    return Step(
        config.work_dir / "reranked",
        [*(list_file(config, split) for split in HELD_OUT), *texts, *dict.fromkeys(models), *outputs],
        {"version": _VERSION, "seed": config.seed, "rows": config.rows, **options},
        lambda folder: _build(folder, config),
    )


def sources(config: RerankingExperiment, domain: str) -> list[LanguageModelSource]:
    """The language models of a domain, named like their rows."""
    subwords, options = config.translation.data / "sentencepiece.model", config.rerank
    found = [
        LanguageModelSource.of_fairseq(
            name,
            best_checkpoint(config, f"{name}@{domain}"),
            data_dir(config, domain),
            subwords,
            paths="",
            max_tokens=options.max_tokens,
            cpu=options.cpu,
        )
        for name in config.systems
    ]
    ngrams = [LanguageModelSource.of_arpa(KNESER_NEY, arpa_file(config, domain), subwords)]
    return [*(ngrams if config.kneser_ney else []), *found]


def rerank_domain(valid: DomainList, test: DomainList, models: Sequence[str], restarts: int, seed: int) -> Reranked:
    """Tune a row's weights on one list and choose by them from another.

    Args:
        valid: the list to tune on.
        test: the list to choose from.
        models: the features that language models gave, each of which makes a row.
        restarts: random starts of the tuning.
        seed: of these.
    """
    weights, tuned, counts = {}, {}, valid.counts
    for row in (LIST, *models):
        nbest = valid.without(set(models) - {row})
        values = tune_weights(nbest, counts, [first_weights(nbest)], restarts=restarts, seed=seed)
        weights[row] = dict(zip(nbest.names, values.tolist(), strict=True))
        tuned[row] = round(bleu_of_choice(counts, nbest.best(values)), 4)
    names = test.nbest.names
    by_row = {row: np.array([own.get(name, 0.0) for name in names]) for row, own in weights.items()}
    return Reranked(choose(test.nbest, test.counts, by_row), weights, tuned)


def _build(folder: Path, config: RerankingExperiment) -> None:
    lists, references = {}, {}
    for split in HELD_OUT:
        lists[split], references[split] = read_nbest(list_file(config, split)), _references(config, split)
    places = {split: _places(config, split, lists[split], references[split]) for split in HELD_OUT}
    found, perplexity = {}, {}
    tokenizer = bleu_tokenizer(config.translation.target_lang)
    for domain in config.domains:
        models = sources(config, domain)
        parts = [DomainList(lists[s].part(places[s][domain]), references[s][domain], tokenizer) for s in HELD_OUT]
        valid, test = (_with_scores(config, part, models, domain) for part in parts)
        names = [source.name for source in models]
        found[domain] = rerank_domain(valid, test, names, config.rerank.restarts, config.seed)
        perplexity[domain] = _perplexities(config, models, domain, test.references)
        for row, choice in found[domain].choices.items():
            write_lines(folder / row / f"{domain}.{config.translation.target_lang}", test.nbest.chosen(choice))
    rows = next(iter(found.values())).choices
    record = compare(
        lists["test"],
        [line for own in references["test"].values() for line in own],
        {row: np.concatenate([each.choices[row] for each in found.values()]) for row in rows},
        others={name: _output(config, name, references["test"]) for name in config.translation.outputs},
        groups={domain: np.array(place) for domain, place in places["test"].items()},
        tokenizer=tokenizer,
        resamples=config.rerank.resamples,
        seed=config.seed,
    )
    record |= {"weights": {domain: each.weights for domain, each in found.items()}}
    record |= {"tuned": {domain: each.tuned for domain, each in found.items()}, "perplexity": perplexity}
    text = json.dumps(record, indent=1, ensure_ascii=False)
    (folder / Path(SCORES_FILE).name).write_text(text + "\n", encoding="utf-8")


def _output_files(config: RerankingExperiment) -> list[Path]:
    given = config.translation
    files = [given.output(name, domain) for name in given.outputs for domain in config.domains]
    for path in files:
        if not path.is_file():
            raise InputError(
                f"{config.path}: translation: outputs: {path.parent.name!r} has no {path}; run the stage translate of "
                "the translation experiment"
            )
    return files


def _output(config: RerankingExperiment, name: str, references: Mapping[str, Sequence[str]]) -> list[str]:
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


def _references(config: RerankingExperiment, split: str) -> dict[str, list[str]]:
    return {domain: read_lines(config.translation.text(domain, split)) for domain in config.domains}


def _places(
    config: RerankingExperiment, split: str, whole: NBest, references: Mapping[str, Sequence[str]]
) -> dict[str, range]:
    """Where each domain's sentences are in a list, which has them in the order of the domains.

    Raises:
        InputError: if there are not as many references as sentences.
    """
    ends = list(accumulate(map(len, references.values()), initial=0))
    if ends[-1] != len(whole.texts):
        raise InputError(
            f"{list_file(config, split)}: has {len(whole.texts)} sentences, and the {split} sets of "
            f"{config.translation.work_dir} {ends[-1]}; run that experiment, and this one from translate on, again"
        )
    return {domain: range(*bounds) for domain, bounds in zip(references, pairwise(ends), strict=True)}


def _with_scores(
    config: RerankingExperiment, listed: DomainList, models: Sequence[LanguageModelSource], domain: str
) -> DomainList:
    """The list with the number of words and what language models say."""
    texts, folder = listed.nbest.all_texts(), config.work_dir / "scores" / domain
    columns = {WORDS: np.array([float(len(text.split())) for text in texts])}
    columns |= {source.name: score_texts(source, texts, folder) for source in models}
    return replace(listed, nbest=listed.nbest.with_features(columns))


def _perplexities(
    config: RerankingExperiment, models: Sequence[LanguageModelSource], domain: str, references: Sequence[str]
) -> dict[str, float]:
    """Of the test set, per subword and end of sentence."""
    tokens = sum(len(line.split()) + 1 for line in stream_lines(config.translation.pieces(domain, "test")))
    folder = config.work_dir / "scores" / domain
    return {source.name: math.exp(-score_texts(source, references, folder).sum() / tokens) for source in models}

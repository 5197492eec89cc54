"""Report of the reranking recipe: Table 5 of Zhang et al. (2016) over all domains, and language model perplexities.

*Fast Gated Neural Domain Adaptation: Language Model as a Case Study*, COLING 2016.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairseq_ext.experiments.metrics.comparison import Comparison
from fairseq_ext.experiments.metrics.corpus_metrics import bleu_tokenizer
from fairseq_ext.experiments.metrics.records import Records
from fairseq_ext.experiments.metrics.render import Page
from fairseq_ext.experiments.metrics.tables import Table
from fairseq_ext.experiments.report import metric_column
from fairseq_ext.experiments.reranking.config import LIST, Reranking
from fairseq_ext.experiments.reranking.measure import PERPLEXITY, score_metrics
from fairseq_ext.experiments.reranking.nbest import FIRST_BEST, ORACLE


def page(config: Reranking, records: Records, comparisons: Sequence[Comparison]) -> Page:
    """Create the report from records and comparisons."""
    translation, experiment = config.translation, config.translation.work_dir.name
    notes = [
        f"{FIRST_BEST}: the first hypothesis. {ORACLE}: chosen with the references, by changing one sentence at a time "
        "until corpus BLEU no longer improves; it starts from the hypotheses with the highest sentence BLEU, or from "
        "the best of the other rows if that is better.",
        f"{LIST}: re-ranked by the scores of the translation system and the number of words, without a language model. "
        "The rows below it also use a language model of the domain's target side. Weights are tuned for BLEU on the "
        "validation set of each domain.",
    ]
    if translation.outputs:
        outputs = ", ".join(translation.outputs)
        notes.append(f"{outputs}: translations of {experiment} without re-ranking, with its beam size.")
    notes.append("Table 5 in Zhang et al. (2016).")
    columns = [metric_column(records, name, PERPLEXITY, name, best=min) for name in records.domains(PERPLEXITY)]
    note = "Per subword and end of sentence; each sentence is scored separately."
    perplexities = Table("Perplexity of the test sets", "Model", records.systems(PERPLEXITY), columns, [note])
    scores = [
        Table(
            f"{name} of translations, first-best and re-ranked",
            "Chosen by",
            records.systems(name),
            [metric_column(records, group, name, group, best=max, beside=[ORACLE]) for group in records.domains(name)],
            [*notes, f"{name}: {metric.signature}."],
        )
        for name, metric in score_metrics(bleu_tokenizer(translation.target_lang)).items()
    ]
    sections = {"Scores": scores, "Language models": [perplexities]}
    hypotheses = f"{translation.nbest} hypotheses per sentence"
    summary = f"Translations by {translation.run} of {experiment}, chosen from {hypotheses}."
    return Page(config.work_dir.name, summary, sections, comparisons)

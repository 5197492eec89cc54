"""The report of re-ranking: Table 5 of the paper over all domains, who is better than whom, and what models know.

All figures come from ``reranked/scores.json``; what was not measured is said to be missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.reranking.config import KNESER_NEY, LIST, RerankingExperiment
from fairseq_ext.experiments.reranking.rerank import SCORES_FILE
from fairseq_ext.experiments.tuning_report import TuningReport
from fairseq_ext.metrics.bootstrap import MIN_SENTENCES, SIGNIFICANT, format_p, is_significant
from fairseq_ext.report.content import Below, Cell, Missing, Report, Row, Section, Table
from fairseq_ext.report.figures import BEST, NOT_MEASURED, Figure, figure_table
from fairseq_ext.report.records import Record, Records, read_result
from fairseq_ext.report.writing import find_reading, reading_sections
from fairseq_ext.reranking.report import ALL, FIRST_BEST, ORACLE

_VERSION = 1
_PERPLEXITY = "perplexity"
_TABLE_5 = "Table 5. {} of translations, first-best and re-ranked"
_COMPARED = "Differences and how likely chance makes them"
_KNOWS = "Perplexity of the test sets"
_Result = Mapping[str, Any]


def report_step(config: RerankingExperiment) -> Step:
    """The step that writes ``report/`` of what there is, so make it when the other steps have run.

    Raises:
        InputError: naming a key of the file, or a reading that is not there.
    """
    reading = find_reading(config.path, "rerank: reading", config.rerank.reading)
    tuning = TuningReport.of(config, config.systems, config.runs)
    options = {"version": _VERSION, "rows": config.rows, "translation": _translated_by(config)}
    return tuning.step([config.work_dir / SCORES_FILE], reading, options, lambda: make_report(config))


def make_report(config: RerankingExperiment) -> Report:
    """Everything that the report says.

    Raises:
        InputError: if the scores cannot be read.
    """
    result = read_result(config.work_dir / SCORES_FILE) or {}
    records = Records([*_records(result)])
    reading = find_reading(config.path, "rerank: reading", config.rerank.reading)
    return Report(
        f"Experiment report: {config.work_dir.name}",
        _lead(result, config.translation.outputs),
        [("Sentences", f"{result['sentences']:,}"), ("Hypotheses of each", f"{result['hypotheses']:g}")]
        if result
        else [],
        [
            *reading_sections(reading),
            Section("bleu", "BLEU", [_scores(config, result, records, "BLEU"), _comparisons(result)]),
            Section("chrf", "chrF", [_scores(config, result, records, "chrF")]),
            Section("models", "Language models", [_perplexities(config, result, records)]),
        ],
        [
            "Table 5 is numbered as in “Fast Gated Neural Domain Adaptation: Language Model as a Case Study”. "
            f"Translations are by {_translated_by(config)}, {config.translation.nbest} hypotheses of a sentence."
        ],
        records,
    )


def _translated_by(config: RerankingExperiment) -> str:
    return f"{config.translation.run} of {config.translation.work_dir.name}"


def _records(result: _Result) -> Iterator[Record]:
    for row, scores in result.get("systems", {}).items():
        for metric in result["signatures"]:
            for domain, value in scores[metric].items():
                yield Record(row, row, domain, metric, value, SCORES_FILE)
    for domain, by_model in result.get("perplexity", {}).items():
        for row, value in by_model.items():
            yield Record(row, row, domain, _PERPLEXITY, value, SCORES_FILE)


def _scores(config: RerankingExperiment, result: _Result, records: Records, metric: str) -> Table | Missing:
    """Table 5: a row for each way to choose, a column a domain, the last one all sentences."""
    title = _TABLE_5.format(metric)
    if not result:
        return Missing(title, NOT_MEASURED)
    against = {c["system"]: c[metric] for c in result["comparisons"] if c["than"] == LIST}
    domains = [*(name for name in result["groups"] if name != ALL), ALL]
    columns = [
        Figure(domain, records.of_systems(metric, domain), best=max, mark=partial(_mark, against, domain))
        for domain in domains
    ]
    competing = [row for row in result["systems"] if row != ORACLE]
    outputs = [name for name in config.translation.outputs if name in result["systems"]]
    notes = [
        f"{FIRST_BEST}: the first hypothesis. {LIST}: re-ranked by the translation system’s own scores and the number "
        "of words, without a language model. The others have one of the domain’s target side besides. Weights are "
        "tuned on each domain’s validation set.",
        *([f"{', '.join(outputs)}: as {config.translation.work_dir.name} has it, of its own beam."] if outputs else []),
        f"{ORACLE}: of the highest BLEU that was found among the hypotheses, knowing the references; not compared.",
        f"▲ ▼: significantly better or worse than {LIST} (p < {SIGNIFICANT}, paired bootstrap, two-sided, "
        f"{result['resamples']:,} resamples; fewer than {MIN_SENTENCES} sentences are not tested). {ALL}: all "
        "sentences as one corpus.",
        BEST,
    ]
    below = Below(notes, [SCORES_FILE], {metric: result["signatures"][metric]})
    return figure_table(title, "Chosen by", columns, [("", list(result["systems"]))], below, competing)


def _mark(against: Mapping[str, Mapping[str, Mapping[str, Any]]], domain: str, row: str) -> str:
    found = against.get(row, {}).get(domain)
    if found is None or not is_significant(found["p"]):
        return ""
    return "▲" if found["difference"] > 0 else "▼"


def _comparisons(result: _Result) -> Table | Missing:
    """Every two rows on all sentences."""
    if not result:
        return Missing(_COMPARED, NOT_MEASURED)
    metrics = list(result["signatures"])
    rows = [
        Row(
            f"{found['system']} over {found['than']}",
            [cell for metric in metrics for cell in _cells(found[metric][ALL])],
        )
        for found in result["comparisons"]
    ]
    headings = [f"{metric}{part}" for metric in metrics for part in ("", ", p")]
    below = Below([f"On {ALL} sentences; paired bootstrap, two-sided."], [SCORES_FILE])
    return Table(_COMPARED, "Of two", headings, [("", rows)], below=below)


def _cells(found: Mapping[str, Any]) -> list[Cell]:
    return [Cell(f"{found['difference']:+.2f}".replace("-", "−")), Cell(format_p(found["p"]))]


def _perplexities(config: RerankingExperiment, result: _Result, records: Records) -> Table | Missing:
    models: Sequence[str] = config.rows[1:]
    columns = [Figure(name, records.of_systems(_PERPLEXITY, name), best=min) for name in result.get("perplexity", {})]
    if not columns:
        return Missing(_KNOWS, NOT_MEASURED)
    order = f" {KNESER_NEY}: {config.kneser_ney.order}-grams." if config.kneser_ney else ""
    notes = [f"Per subword and end of sentence, every sentence by itself.{order}", BEST]
    return figure_table(_KNOWS, "Model", columns, [("", models)], Below(notes, [SCORES_FILE]))


def _lead(result: _Result, outputs: Sequence[str]) -> str:
    """What came out, in a sentence."""
    if not result:
        return "Nothing has been measured yet."
    scores = {row: found["BLEU"][ALL] for row, found in result["systems"].items()}
    best = max((row for row in scores if row not in (FIRST_BEST, LIST, ORACLE, *outputs)), key=scores.__getitem__)
    others = "".join(f"{scores[name]:.2f} as {name} of its own beam, " for name in outputs if name in scores)
    return (
        f"Re-ranked by {best}, translations have BLEU {scores[best]:.2f}; {scores[LIST]:.2f} without a language model, "
        f"{scores[FIRST_BEST]:.2f} as the system orders them, {others}{scores[ORACLE]:.2f} at best."
    )

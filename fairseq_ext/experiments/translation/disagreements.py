"""Test sentences on which gates and classifier disagree, with what every output made of them (Table 6)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.results import DISAGREEMENTS, Design, Results
from fairseq_ext.experiments.translation.tables import gate_runs
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.content import Below, Example, Examples, Missing

_TITLE = "Table 6. Sentences on which gates and classifier disagree"
_LONGEST = 300  # characters of a line; the rest is cut


def example_files(config: TranslationExperiment, outputs: Sequence[str], domains: Sequence[str]) -> list[Path]:
    """The files that examples may be taken from: test sets and the translations of the outputs' first runs."""
    splits = config.work_dir / "splits"
    langs = (config.source_lang, config.target_lang)
    texts = [splits / domain / f"test.{lang}" for domain in domains for lang in langs]
    found = [translation_file(config, output, domain) for output in outputs for domain in domains]
    return [path for path in [*texts, *found] if path is not None]


def translation_file(config: TranslationExperiment, output: str, domain: str) -> Path | None:
    """A domain's test set as the first run of an output translates it; None if none does."""
    for run in config.output_runs(output):
        if run.run.domain in (None, domain):
            return config.work_dir / "translations" / run.name / f"{domain}.{config.target_lang}"
    return None


def read_examples(config: TranslationExperiment, design: Design, results: Results) -> Examples | Missing:
    """The clearest disagreements of the first gated output, of different domains as far as there are.

    Sentences that all outputs translate alike show nothing and are passed over.
    """
    number = config.evaluate.report.examples
    if number == 0:
        return Missing(_TITLE, "not wanted: evaluate: report: examples is 0")
    path = config.work_dir / DISAGREEMENTS
    run = next((run for name in design.main for run in gate_runs(results.gates or {}, name)), None)
    if run is None or not path.is_file():
        return Missing(_TITLE, f"not available: there are no gates in {DISAGREEMENTS}")
    texts = _Texts(config, design)
    entries = [entry for entry in _read(path) if entry["output"] == run]
    telling = [entry for entry in entries if texts.differ(entry["domain"], entry["line"])]
    chosen = choose(telling, number)
    if not chosen:
        return Missing(_TITLE, f"none: the gates of {run} never disagree with the classifier where translations differ")
    notes = [
        f"Of {len(entries):,} test sentences on which the gates of {run} (mean over layers) and the classifier "
        "disagree, the clearest by the product of the classifier’s probability and the gates’ weight, of different "
        "domains; those that all outputs translate alike were passed over."
    ]
    below = Below(notes, [DISAGREEMENTS])
    return Examples(_TITLE, [texts.example(entry) for entry in chosen], design.langs, below, design.baseline)


def choose(entries: Iterable[Mapping[str, Any]], number: int) -> list[Mapping[str, Any]]:
    """The first entry of every domain, then the second of each …, up to ``number``."""
    seen: dict[str, int] = {}
    ranked = []
    for place, entry in enumerate(entries):
        seen[entry["domain"]] = seen.get(entry["domain"], 0) + 1
        ranked.append((seen[entry["domain"]], place, entry))
    return [entry for _, _, entry in sorted(ranked, key=lambda item: item[:2])[:number]]


class _Texts:
    """Sources, references and translations, read when they are asked for."""

    def __init__(self, config: TranslationExperiment, design: Design) -> None:
        self._config = config
        self._design = design
        self._lines: dict[Path, list[str]] = {}

    def differ(self, domain: str, line: int) -> bool:
        return len({text for _, text in self._translations(domain, line)}) > 1

    def example(self, entry: Mapping[str, Any]) -> Example:
        domain, line = entry["domain"], entry["line"]
        source, reference = (
            self._line(self._config.work_dir / "splits" / domain / f"test.{lang}", line) for lang in self._design.langs
        )
        lines = [("Source", source), ("Reference", reference), *self._translations(domain, line)]
        title = (
            f"{domain}, test sentence {line:,}: the classifier says {entry['teacher']} ({entry['teacher_prob']:.2f}), "
            f"the gates {entry['gates']} ({entry['gates_weight']:.2f})"
        )
        return Example(title, [(name, _cut(text)) for name, text in lines if text is not None])

    def _translations(self, domain: str, line: int) -> list[tuple[str, str]]:
        files = [(name, translation_file(self._config, name, domain)) for name in self._design.main]
        found = [(name, self._line(path, line)) for name, path in files if path is not None]
        return [(name, text) for name, text in found if text is not None]

    def _line(self, path: Path, line: int) -> str | None:
        if path not in self._lines:
            self._lines[path] = read_lines(path, may_be_blank=True)
        lines = self._lines[path]
        return lines[line - 1] if line <= len(lines) else None


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); make it again") from None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

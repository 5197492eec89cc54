"""What an experiment has measured, read from its folder, and what its file says of the outputs."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.errors import InputError
from fairseq_ext.experiment.config import ExperimentConfig
from fairseq_ext.experiment.runs import OutputRun, baseline_of, output_runs_of, outputs_of, systems_of

# Where each part comes from, relative to the experiment's folder.
FILES = {
    "scores": "scores/scores.json",
    "teacher": "teacher/teacher.json",
    "distances": "analysis/distances/distances.json",
    "parameters": "analysis/parameters/parameters.json",
    "gates": "analysis/gates/gates.json",
    "speed": "analysis/speed/speed.json",
}
DISAGREEMENTS = "analysis/gates/disagreements.jsonl"
_METRICS = ("COMET", "chrF", "BLEU")

Scores = Mapping[str, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Design:
    """What the experiment file says of outputs and systems.

    Attributes:
        name: the experiment's, which is its folder's.
        langs: source and target.
        main: outputs of the main tables, in order.
        ablation: those of Table 9.
        baseline: the output that the others are compared with.
        told: outputs that are told the true domain of every sentence.
        systems: the system of each output.
        starts: the system that each system starts from, if any, in the order of the file.
        per_domain: systems with a model a domain.
        resamples: of the bootstrap.
    """

    name: str
    langs: tuple[str, str]
    main: Sequence[str]
    ablation: Sequence[str]
    baseline: str
    told: frozenset[str]
    systems: Mapping[str, str]
    starts: Mapping[str, str | None]
    per_domain: frozenset[str]
    resamples: int

    @classmethod
    def of(cls, config: ExperimentConfig) -> Design:
        """Read it from an experiment file.

        Raises:
            InputError: naming a wrong key, or an output that is not there.
        """
        outputs, options = outputs_of(config), config.evaluate.report
        where = f"{config.path}: evaluate: report"
        ablation = _choose(options.ablation, list(outputs), f"{where}: ablation")
        systems = systems_of(config)
        return cls(
            name=config.work_dir.name,
            langs=(config.source_lang, config.target_lang),
            main=_choose(options.main, list(outputs), f"{where}: main")
            or [name for name in outputs if name not in ablation[1:]],
            ablation=ablation,
            baseline=baseline_of(config) or "",
            told=frozenset(name for name in outputs if _is_told(output_runs_of(config, name))),
            systems={name: entry["system"] for name, entry in outputs.items()},
            starts={name: system.start for name, system in systems.items()},
            per_domain=frozenset(name for name, system in systems.items() if system.per_domain),
            resamples=config.evaluate.resamples,
        )


@dataclass(frozen=True)
class Results:
    """The records of an experiment; None for what has not been made."""

    scores: Mapping[str, Any] | None = None
    teacher: Mapping[str, Any] | None = None
    distances: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None
    gates: Mapping[str, Any] | None = None
    speed: Mapping[str, Any] | None = None

    @property
    def domains(self) -> list[str]:
        record = self.scores or self.teacher or self.distances or {"domains": []}
        return list(record["domains"])

    @property
    def outputs(self) -> Mapping[str, Scores]:
        return self.scores["outputs"] if self.scores else {}

    @property
    def metrics(self) -> list[str]:
        """The metrics that were computed, the most trusted first (Kocmi et al. 2021)."""
        return [metric for metric in _METRICS if any(metric in scores for scores in self.outputs.values())]

    def score(self, output: str, metric: str, column: str) -> Mapping[str, Any] | None:
        """Mean, standard deviation, values and p-value of one figure; None if it was not computed."""
        return self.outputs.get(output, {}).get(metric, {}).get(column)

    def gain(self, output: str, over: str, metric: str, column: str) -> float | None:
        """By how much one output's mean is above another's."""
        pair = [self.score(name, metric, column) for name in (output, over)]
        return pair[0]["mean"] - pair[1]["mean"] if pair[0] and pair[1] else None


def read_results(work_dir: Path) -> Results:
    """Read whatever records there are.

    Raises:
        InputError: if one of them is no JSON.
    """
    return Results(**{name: read_record(work_dir / path) for name, path in FILES.items()})


def read_record(path: Path) -> dict[str, Any] | None:
    """Read a record of results; None if it is not there.

    Raises:
        InputError: if it is no JSON object.
    """
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); make it again") from None
    if not isinstance(record, dict):
        raise InputError(f"{path}: holds no record; make it again")
    return record


def _choose(patterns: Sequence[str], outputs: Sequence[str], where: str) -> list[str]:
    """The outputs that patterns name, in the order of the patterns, each once."""
    chosen: dict[str, None] = {}
    for pattern in patterns:
        found = [name for name in outputs if fnmatch.fnmatchcase(name, pattern)]
        if not found:
            raise InputError(f"{where}: no output {pattern!r}; there are {', '.join(outputs)}")
        chosen |= dict.fromkeys(found)
    return list(chosen)


def _is_told(runs: Sequence[OutputRun]) -> bool:
    """Whether an output rests on knowing every sentence's domain."""
    return any(run.run.domain is not None or run.domain_source == "oracle" for run in runs)

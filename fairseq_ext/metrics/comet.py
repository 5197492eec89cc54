"""COMET scores of sentences, from a model on this machine and an environment of its own.

COMET needs older releases of numpy, transformers and protobuf than fairseq_ext, so it lives in ``.venv-comet``
(``scripts/comet.sh`` makes it) and is run there as a program. What it says of a run is kept, sentence by sentence, in
``comet/RUN``: scoring takes long, and a new output should not cost that of the others again.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

from fairseq_ext.engine.children import how_it_ended, run_child
from fairseq_ext.engine.hashing import hash_path
from fairseq_ext.engine.steps import Step, run_step
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.test_sets import TestSets
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics import comet_worker

NOT_RUN = "not run: no model"
SENTENCES_FILE = "sentences.json"
_ROOT = Path(__file__).resolve().parents[3]
_WORKER = Path(comet_worker.__file__)
_CHECKPOINT = Path("checkpoints/model.ckpt")


@dataclass(frozen=True)
class SentenceScores:
    """COMET's scores of a run.

    Attributes:
        scores: by test set one a sentence.
        version: COMET's.
    """

    scores: dict[str, list[float]]
    version: str


def comet_python() -> Path:
    """The interpreter of COMET's environment: the variable ``COMET_PYTHON``, or that of ``.venv-comet``."""
    return Path(os.environ.get("COMET_PYTHON") or _ROOT / ".venv-comet/bin/python")


def checkpoint_of(config: TranslationExperiment) -> Path | None:
    """The checkpoint that ``evaluate: comet`` names, as a file or as the model's folder; None if it names none.

    Raises:
        InputError: if what it names is not there.
    """
    if config.evaluate.comet is None:
        return None
    path = Path(config.evaluate.comet).absolute()
    checkpoint = path / _CHECKPOINT if path.is_dir() else path
    for file in (checkpoint, _hparams(checkpoint)):
        if not file.is_file():
            raise InputError(
                f"{config.path}: evaluate: comet: {file} does not exist; give the folder of a COMET model, with "
                f"hparams.yaml and {_CHECKPOINT}, or leave the key out"
            )
    return checkpoint


def check_environment(config: TranslationExperiment) -> None:
    """Check that COMET can be run if it is asked for; best called before hours are spent on the rest.

    Raises:
        InputError: if the model or the environment is missing.
    """
    if checkpoint_of(config) and not comet_python().is_file():
        raise InputError(
            f"{config.path}: evaluate: comet: COMET's environment is missing ({comet_python()}); make it with "
            "scripts/comet.sh, or leave the key out"
        )


def model_name(checkpoint: Path) -> str:
    """What a checkpoint's model is called: the folder that holds ``checkpoints/``."""
    return checkpoint.parents[1].name


@functools.cache
def model_digest(checkpoint: Path) -> str:
    """The contents of a model, read once: checkpoints take gigabytes."""
    return f"{hash_path(checkpoint)} {hash_path(_hparams(checkpoint))}"


def score_run(
    config: TranslationExperiment,
    run: str,
    files: Mapping[str, Path],
    translations: Mapping[str, Sequence[str]],
    tests: TestSets,
) -> SentenceScores:
    """Score a run's sentences, unless they have been already.

    Args:
        config: an experiment with a COMET model.
        run: name of the run.
        files: its translations, by test set.
        translations: what is in them.
        tests: sources and references.

    Raises:
        InputError: if model or environment are missing or do not work.
    """
    checkpoint = checkpoint_of(config)
    assert checkpoint is not None
    output = config.work_dir / "comet" / run

    def build(folder: Path) -> None:
        check_environment(config)
        samples = [
            {"src": source, "mt": translation, "ref": reference}
            for name, lines in translations.items()
            for source, translation, reference in zip(tests.sources[name], lines, tests.references[name], strict=True)
        ]
        scores, version = score_sentences(checkpoint, samples)
        rest = iter(scores)
        by_set = {name: [next(rest) for _ in lines] for name, lines in translations.items()}
        record = {"model": model_name(checkpoint), "version": version, "scores": by_set}
        (folder / SENTENCES_FILE).write_text(json.dumps(record) + "\n", encoding="utf-8")

    options = {
        "version": 1,
        "model": model_digest(checkpoint),
        "sources": {name: tests.sources[name] for name in files},
        "references": {name: tests.references[name] for name in files},
    }
    run_step(Step(output, list(files.values()), options, build))
    record = json.loads((output / SENTENCES_FILE).read_text(encoding="utf-8"))
    return SentenceScores(record["scores"], record["version"])


def score_sentences(checkpoint: Path, samples: Sequence[Mapping[str, str]]) -> tuple[list[float], str]:
    """Run COMET.

    Args:
        checkpoint: of a local model.
        samples: N mappings with ``src``, ``mt`` and ``ref``.

    Returns:
        N scores, and COMET's version.

    Raises:
        InputError: if COMET fails.
    """
    # Isolated: this folder and PYTHONPATH hold modules that must not pass for COMET's.
    command = [str(comet_python()), "-I", "-W", "ignore", str(_WORKER), str(checkpoint)]
    typed = "".join(json.dumps(sample) + "\n" for sample in samples)
    result = run_child(command, input=typed, stdout=PIPE, text=True, encoding="utf-8")
    if result.returncode:
        raise InputError(f"{checkpoint}: COMET did not score with it; it {how_it_ended(result.returncode)}")
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    if len(printed) != len(samples) + 1:
        raise InputError(f"{checkpoint}: COMET did not score with it; what it said is above")
    return printed[1:], printed[0]["version"]


def _hparams(checkpoint: Path) -> Path:
    return checkpoint.parents[1] / "hparams.yaml"

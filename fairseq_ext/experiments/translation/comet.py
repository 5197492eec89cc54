"""Sentence scores of a local COMET model, computed in a separate environment.

COMET needs older versions of numpy, transformers and protobuf, so it runs as a subprocess in ``.venv-comet``
(``scripts/comet.sh``). The sentence scores of each run are cached in ``comet/RUN``.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE

from fairseq_ext.base.children import how_it_ended, run_child
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.hashing import hash_path
from fairseq_ext.base.steps import Step, run_step
from fairseq_ext.experiments.translation import comet_worker
from fairseq_ext.experiments.translation.set_scores import TestSets

SENTENCES_FILE = "sentences.json"
_ROOT = Path(__file__).resolve().parents[3]
_WORKER = Path(comet_worker.__file__)
_CHECKPOINT = Path("checkpoints/model.ckpt")


def comet_python() -> Path:
    """Return the Python interpreter for COMET: ``COMET_PYTHON`` if set, or that of ``.venv-comet``."""
    return Path(os.environ.get("COMET_PYTHON") or _ROOT / ".venv-comet/bin/python")


def checkpoint_of(model: str | None, where: str) -> Path | None:
    """Return the checkpoint of a COMET model, which may be a file or a folder. ``where`` is for error messages."""
    if model is None:
        return None
    path = Path(model).absolute()
    checkpoint = path / _CHECKPOINT if path.is_dir() else path
    for file in (checkpoint, _hparams(checkpoint)):
        if not file.is_file():
            raise InputError(
                f"{where}: {file} does not exist; give a COMET model's folder with hparams.yaml and {_CHECKPOINT}"
            )
    return checkpoint


def model_name(checkpoint: Path) -> str:
    """Return the name of a model, which is the folder that contains ``checkpoints/``."""
    return checkpoint.parents[1].name


@functools.cache
def model_digest(checkpoint: Path) -> str:
    """Return the hash of a model, computed once."""
    return f"{hash_path(checkpoint)} {hash_path(_hparams(checkpoint))}"


def score_run(
    output: Path, checkpoint: Path, files: Mapping[str, Path], texts: Mapping[str, Sequence[str]], tests: TestSets
) -> tuple[dict[str, list[float]], str]:
    """Score the sentences of a run, or read their scores from the cache.

    Args:
        output: cache directory of the run.
        checkpoint: checkpoint of the COMET model.
        files: files of translations by test set.
        texts: the lines of these files.
        tests: sources and references of the sets.

    Returns:
        sentence scores by test set, and COMET's version.
    """

    def build(folder: Path) -> None:
        samples = [
            {"src": source, "mt": line, "ref": reference}
            for name, lines in texts.items()
            for source, line, reference in zip(tests.sources[name], lines, tests.references[name], strict=True)
        ]
        scores, version = score_sentences(checkpoint, samples)
        rest = iter(scores)
        by_set = {name: [next(rest) for _ in lines] for name, lines in texts.items()}
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
    return record["scores"], record["version"]


def score_sentences(checkpoint: Path, samples: Sequence[Mapping[str, str]]) -> tuple[list[float], str]:
    """Return the scores of N mappings with ``src``, ``mt`` and ``ref``, and COMET's version."""
    python = comet_python()
    if not python.is_file():
        raise InputError(f"evaluate: comet: COMET's environment is missing ({python}); create it with scripts/comet.sh")
    # -I, because modules in this folder or PYTHONPATH must not shadow those of COMET.
    command = [str(python), "-I", "-W", "ignore", str(_WORKER), str(checkpoint)]
    typed = "".join(json.dumps(sample) + "\n" for sample in samples)
    result = run_child(command, input=typed, stdout=PIPE, text=True, encoding="utf-8")
    if result.returncode:
        raise InputError(f"{checkpoint}: COMET failed; it {how_it_ended(result.returncode)}")
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    return printed[1:], printed[0]["version"]


def _hparams(checkpoint: Path) -> Path:
    return checkpoint.parents[1] / "hparams.yaml"

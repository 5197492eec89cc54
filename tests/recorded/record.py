"""Run the tiny experiment of a kind and keep what it has measured: ``python -m tests.recorded.record KIND FOLDER``."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tests.experiments.classification.small_experiment import write_short_classification_experiment
from tests.experiments.recurrent.small_experiment import write_word_lm_experiment
from tests.experiments.small_lm_experiment import write_lm_experiment
from tests.experiments.topics.small_experiment import write_topic_experiment
from tests.experiments.translation.small_translation_experiment import write_translation_experiment
from tests.recorded import HERE, results_of
from tests.verbs import verb

WRITERS: dict[str, Callable[[Path], Path]] = {
    "classification": write_short_classification_experiment,
    "hierarchy": write_lm_experiment,
    "topics": write_topic_experiment,
    "translation": write_translation_experiment,
    "recurrent": write_word_lm_experiment,
}


def record(kind: str, folder: Path) -> None:
    """Run the experiment in a folder and keep its results."""
    folder.mkdir(parents=True, exist_ok=True)
    path = WRITERS[kind](folder)
    verb("run")([str(path)])
    shutil.rmtree(HERE / kind, ignore_errors=True)
    for name, text in results_of(path).items():
        (HERE / kind / name).parent.mkdir(parents=True, exist_ok=True)
        (HERE / kind / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]))

"""No --task need be typed where the architecture or the data directory tells it."""

from pathlib import Path

import pytest
from fairseq import options
from fairseq.models import MODEL_REGISTRY

from fairseq_ext.modules.language_model_options import TOPIC_MODEL
from fairseq_ext.patches.usual_task import TASK_OF_MODEL, fitting_task


def test_every_model_of_ours_is_here() -> None:
    """But topics and plain bases, which go with any language modelling."""
    ours = {name for name, model in MODEL_REGISTRY.items() if model.__module__.startswith("fairseq_ext.")}
    assert ours - {TOPIC_MODEL, "causal_lm"} == TASK_OF_MODEL.keys()


def test_an_architecture_tells_its_task(data: Path) -> None:
    line = [str(data), "--arch", "transformer_gated_adapter_tiny", "--optimizer", "adam"]
    args = options.parse_args_and_arch(options.get_training_parser(), line)
    assert (args.task, args.teacher_dir) == ("multi_domain_translation", "")
    args = options.parse_args_and_arch(options.get_training_parser(), [*line, "--task", "translation"])
    assert args.task == "translation"


@pytest.mark.parametrize(
    ("files", "words", "task"),
    [
        (["domains.txt", "dict.en.txt"], ["--arch", "transformer"], "multi_domain_translation"),
        (["domains.txt", "dict.en.txt"], ["--path", "model.pt"], "multi_domain_translation"),
        (["domains.txt", "dict.txt"], ["-a", "transformer_lm"], "multi_domain_language_modeling"),
        (["domains.txt", "dict.txt"], ["--arch=transformer_lm_topic_tiny"], "multi_domain_language_modeling"),
        (["dict.txt"], ["--arch", "transformer_lm_topic"], "language_modeling"),
        (["dict.en.txt"], ["--arch", "transformer"], "translation"),
    ],
)
def test_a_data_directory_says_what_it_is(tmp_path: Path, files: list[str], words: list[str], task: str) -> None:
    for name in files:
        (tmp_path / name).touch()
    assert fitting_task([*words, f"{tmp_path}:other"], "translation") == task

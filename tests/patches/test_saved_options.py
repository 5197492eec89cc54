"""What may stand in a checkpoint's options, and that the page says the same."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path

import pytest
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf

import fairseq_ext  # noqa: F401  registers, fairseq being loaded
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.patches.options import ALLOWED_NAMES, check_options, forget_starting_files

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "safety.md").read_text(encoding="utf-8")


def test_allowed_names_exist() -> None:
    registered = {
        "model": MODEL_REGISTRY,
        "task": TASK_REGISTRY,
        "criterion": CRITERION_REGISTRY,
        "bpe": REGISTRIES["bpe"]["registry"],
    }
    for kind, names in ALLOWED_NAMES.items():
        assert set(names) <= registered[kind].keys()
    # The second one is this package's.
    assert registered["bpe"].keys() - set(ALLOWED_NAMES["bpe"]) - {"wordpiece"} == {"bert"}


def test_the_page_has_the_same_names() -> None:
    (names,) = re.findall(r"\* \*\*Names\*\*: (.*?)\n\* ", PAGE, re.DOTALL)
    wanted = {name for kind in ("model", "task", "criterion") for name in ALLOWED_NAMES[kind]}
    assert set(re.findall(r"`(\w+)`", names)) == wanted | {"bert"}


def test_options_of_published_models_pass() -> None:
    """fairseq's defaults for GPT-2's subwords are addresses."""
    from fairseq.data.encoders.gpt2_bpe import GPT2BPEConfig

    config = OmegaConf.create(
        {
            "model": {"_name": "transformer_lm", "adaptive_softmax_cutoff": "20000,60000"},
            "task": {"_name": "language_modeling"},
            "bpe": OmegaConf.structured(GPT2BPEConfig(_name="gpt2")),
            "distributed_training": {"distributed_init_method": "tcp://localhost:12345"},
            "job_logging_cfg": {"handlers": {"console": {"stream": "ext://sys.stdout"}}},
            "optimizer": {"_name": "adam", "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-8},
        }
    )
    check_options({"args": None, "cfg": config, "model": {}}, {})


def test_embedding_files_are_forgotten_and_addresses_refused_but_for_the_users_own() -> None:
    given = {"arch": "transformer", "encoder_embed_path": "a", "decoder_embed_path": "b", "more": "https://c"}
    state = {"args": Namespace(**given), "cfg": None}
    with pytest.raises(InputError, match="more is an address"):
        check_options(state, {})
    check_options(state, {"more": "https://c"})
    forget_starting_files(state, {"decoder_embed_path": "b"})
    assert vars(state["args"]) == {**given, "encoder_embed_path": None}

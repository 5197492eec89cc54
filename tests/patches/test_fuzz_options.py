"""Random options: they are accepted or refused in one line, and nothing in them runs or is computed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from fairseq_ext.inputs.errors import InputError, line_of
from fairseq_ext.patches.options import check_options

CASES = int(os.environ.get("FUZZ", "100"))
SECRET = "a-secret-of-the-environment"
KEYS = ["_name", "arch", "task", "data", "adam_betas", "adaptive_softmax_cutoff", "x1", "rname", "bpe", "more"]
PIECES = ["${", "}", ":", ".", "oc.env", "model.rname", "x1", "SECRET", "://", "()", "__import__('os').mkdir('PWN')"]
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=6).map("".join),
    st.sampled_from(["transformer", "fconv", "translation", "oc.env", "(0.9, 0.98)"]),
    st.text(max_size=8),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)),
    max_leaves=12,
)
SECTIONS = st.dictionaries(st.sampled_from(["model", "task", "criterion", "bpe", "optimizer"]), VALUES, max_size=4)
FUZZ = settings(
    max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def texts_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts_in(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts_in(item)]
    return [value] if isinstance(value, str) else []


@FUZZ
@given(options=SECTIONS)
def test_accepted_options_compute_nothing(options: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    monkeypatch.chdir(tmp_path)
    try:
        config = OmegaConf.create(options)
    except Exception:  # OmegaConf itself refuses some interpolations
        config = options
    try:
        check_options({"args": None, "cfg": config, "model": {}}, {})
    except InputError as error:
        assert "\n" not in line_of(error)  # noqa: PT017
    else:
        assert not [text for text in texts_in(options) if "${" in text]
        resolved = OmegaConf.to_container(config, resolve=True) if config is not options else options
        assert SECRET not in json.dumps(resolved, default=str)
    assert not (tmp_path / "PWN").exists()

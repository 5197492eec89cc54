"""Systems that translate say whether they must be told the domain, or their architecture does."""

from __future__ import annotations

from typing import Any

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq_ext.experiments.translation.systems import implies_domain, read_translation_systems

import fairseq_ext.registration  # noqa: F401
from fairseq_ext.inputs.errors import InputError


def needs_domain(**entry: Any) -> bool:
    system = read_translation_systems({"systems": {"x": entry}}, "c.yaml: train")["x"]
    assert "needs_domain" not in system.options  # which fairseq-train does not know
    return system.needs_domain


def test_every_registered_architecture_is_told_what_its_model_needs() -> None:
    """A model with ``needs_domains`` that is missing here belongs into the list of systems.py."""
    needing = {arch for arch, model in ARCH_MODEL_REGISTRY.items() if getattr(model, "needs_domains", False)}
    assert "transformer_domain_adapter_tiny" in needing
    assert {arch for arch in ARCH_MODEL_REGISTRY if implies_domain({"arch": arch})} == needing


def test_tags_need_a_domain() -> None:
    assert needs_domain(arch="transformer", **{"domain-tags": True})
    assert needs_domain(arch="transformer", domain_tags=True)
    assert not needs_domain(arch="transformer", **{"domain-tags": False})


def test_the_file_has_the_last_word() -> None:
    assert needs_domain(arch="my_adapters", needs_domain=True)
    assert not needs_domain(arch="my_adapters")
    assert not needs_domain(arch="transformer_domain_adapter_mine", needs_domain=False)
    with pytest.raises(InputError, match="systems: x: needs_domain: expected true or false, got 'yes'"):
        needs_domain(needs_domain="yes")

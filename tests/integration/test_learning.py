"""Two domains that translate the same words differently: only who knows the domain can be right."""

import copy
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from fairseq_ext.criterions.label_smoothed_cross_entropy_with_kd_gate import (
    LabelSmoothedCrossEntropyWithKDGateCriterion,
)
from tests import toy

pytestmark = pytest.mark.slow

LENGTH, VOCABULARY = 5, 8


@pytest.fixture(scope="module")
def task(data: Path) -> Any:
    toy.make_task(data)  # registers
    dictionary = Dictionary()
    for i in range(VOCABULARY + 2):  # the last two words give the domain away
        dictionary.add_symbol(f"w{i}")
    return Namespace(source_dictionary=dictionary, target_dictionary=dictionary, domains=["copying", "turning"])


def make_batch(task: Any, generator: torch.Generator, with_hints: bool, size: int = 32) -> dict:
    """Domain 0 repeats the sentence, domain 1 turns it round; a hint opens the sentence or does not."""
    first = task.source_dictionary.index("w0")
    words = torch.randint(first, first + VOCABULARY, (size, LENGTH), generator=generator)
    domain_ids = torch.randint(0, 2, (size,), generator=generator)
    target = torch.where(domain_ids[:, None] == 0, words, words.flip(1))
    end = torch.full((size, 1), task.source_dictionary.eos())
    hints = (first + VOCABULARY + domain_ids)[:, None] if with_hints else words[:, :0]
    source, target = torch.cat([hints, words, end], 1), torch.cat([target, end], 1)
    net_input = {"src_tokens": source, "src_lengths": torch.full((size,), source.size(1))}
    net_input["prev_output_tokens"] = target.roll(1, 1)
    probs = torch.full((size, 2), 0.02).scatter(1, domain_ids[:, None], 0.98)
    return {"net_input": net_input, "target": target, "ntokens": target.numel(), "domain_ids": domain_ids,
            "teacher_probs": probs}  # fmt: skip


def make_model(arch: str, task: Any) -> Any:
    args = Namespace(arch=arch, share_all_embeddings=True, dropout=0.0, encoder_ffn_embed_dim=128)
    args.encoder_normalize_before = args.decoder_normalize_before = True
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(1)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, task)


def train(model: Any, criterion: Any, task: Any, steps: int, with_hints: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    model.train()
    for _ in range(steps):
        batch = make_batch(task, generator, with_hints)
        loss, size, _ = criterion(model, batch)
        optimiser.zero_grad()
        (loss / size).backward()
        optimiser.step()
    model.eval()


def log_of(model: Any, criterion: Any, task: Any) -> dict[str, Any]:
    """On new sentences with hints."""
    batch = make_batch(task, torch.Generator().manual_seed(2), with_hints=True, size=200)
    with torch.no_grad():
        return criterion(model, batch)[2]


def test_gates_find_the_domain_and_beat_a_base_that_cannot_know_it(task: Any) -> None:
    plain = LabelSmoothedCrossEntropyCriterion(task, False, 0.0)
    gated = LabelSmoothedCrossEntropyWithKDGateCriterion(task, False, 0.0, 0.5, 1.0, "log-probs", "token")
    base = make_model("transformer_tiny", task)
    train(base, plain, task, steps=200, with_hints=False)
    gad = make_model("transformer_gated_adapter_tiny", task)
    gad.load_state_dict(copy.deepcopy(base.state_dict()))
    train(gad, gated, task, steps=130, with_hints=True)
    log = log_of(gad, gated, task)
    assert log["nll_loss"] < 0.5 * log_of(base, plain, task)["nll_loss"]
    # The hint is in the encoder's mean from the first layer on.
    assert float(log["gate_hits_encoder_1"]) / float(log["gate_terms_encoder"]) > 0.95

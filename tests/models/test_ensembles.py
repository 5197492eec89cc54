"""Ensembles of models that route by domain and models that do not, in any order."""

from __future__ import annotations

import copy
import math
from argparse import Namespace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import data_utils
from torch import Tensor

from tests import toy

KINDS = {"MIX": "transformer_tiny", "AD": "transformer_domain_adapter_tiny", "GAD": "transformer_gated_adapter_tiny"}
PAIRS = list(product(KINDS, KINDS))


def make_ensemble(data: Path, pair: tuple[str, str]) -> tuple[Any, list]:
    """A task, and models of other weights each, built in their order as fairseq does it from --path."""
    task, _ = toy.make_task(data)
    models = []
    for kind in pair:
        _, args = toy.make_task(data, arch=KINDS[kind])
        models.append(toy.make_model(task, args, seed=sum(map(ord, kind))))
        toy.randomise_adapters(models[-1])
    return task, models


def log_probs(kind: str, model: Any, net_input: dict) -> Tensor:
    own = {key: value for key, value in net_input.items() if kind != "MIX" or key != "domain_ids"}
    with torch.no_grad():
        return model.get_normalized_probs(model(**own), log_probs=True)


def averaged(pair: tuple[str, str], models: list, net_input: dict) -> Tensor:
    of_each = [log_probs(kind, model, net_input) for kind, model in zip(pair, models, strict=True)]
    return torch.stack(of_each).logsumexp(0) - math.log(len(of_each))


def decode(task: Any, models: list, batch: dict, **options: Any) -> list[dict]:
    generator = task.build_generator(models, Namespace(beam=2, max_len_b=8, **options))
    return [row[0] for row in task.inference_step(generator, models, copy.deepcopy(batch))]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_an_ensemble_is_the_average_of_its_models_in_any_order(data: Path, pair: tuple[str, str]) -> None:
    task, models = make_ensemble(data, pair)
    batch = toy.first_batch(task, "test", max_sentences=12)
    hypotheses = decode(task, models, batch)
    dictionary = task.target_dictionary
    tokens = [hypothesis["tokens"] for hypothesis in hypotheses]
    prev_output_tokens = data_utils.collate_tokens(
        tokens, dictionary.pad(), dictionary.eos(), move_eos_to_beginning=True
    )
    by_hand = averaged(pair, models, batch["net_input"] | {"prev_output_tokens": prev_output_tokens})
    for row, hypothesis in enumerate(hypotheses):
        scores = by_hand[row, : len(tokens[row])].gather(1, tokens[row].unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(hypothesis["positional_scores"], scores, atol=1e-4, rtol=0)
    turned_task, turned = make_ensemble(data, pair[::-1])
    other = decode(turned_task, turned, toy.first_batch(turned_task, "test", max_sentences=12))
    for one, two in zip(hypotheses, other, strict=True):
        assert torch.equal(one["tokens"], two["tokens"])
        assert torch.equal(one["positional_scores"], two["positional_scores"])


@pytest.mark.parametrize("pair", [("MIX", "AD"), ("AD", "MIX")], ids="-".join)
def test_typed_lines_tell_an_ensemble_their_domain(data: Path, pair: tuple[str, str]) -> None:
    task, models = make_ensemble(data, pair)
    lines = ["<domain:sub> w1 w2 w3", "<domain:law> w1 w2 w3"]
    encoded, lengths = task.get_interactive_tokens_and_lengths(lines, lambda text: text)
    dataset = task.build_dataset_for_inference(encoded, lengths)
    typed, other = decode(task, models, dataset.collater([dataset[0], dataset[1]]))
    assert not torch.equal(typed["positional_scores"], other["positional_scores"])

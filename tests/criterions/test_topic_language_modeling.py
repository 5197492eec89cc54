"""The loss of the topics against numbers worked out by hand."""

import math
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from fairseq.logging import metrics

from fairseq_ext.criterions.topic_language_modeling import TopicLanguageModelingCriterion, tdm_terms

PAD = 1
TOPICS = torch.tensor([[0.0, 0, 0], [3.0, 0, 4]])  # z_d, B×H
TEXTS = torch.tensor([[0.0, 0, 2], [3.0, 0, 0]])  # TID_d
TASK = SimpleNamespace(target_dictionary=SimpleNamespace(pad=lambda: PAD))


def test_triplets_by_hand() -> None:
    """Distances 2 and 4 to their own texts, 3 and √13 to the other's; a single text has none."""
    assert tdm_terms("triplet", TOPICS[:1], TEXTS[:1], 0.2).tolist() == [0]
    expected = torch.tensor([0.0, 4 - math.sqrt(13) + 0.2])
    torch.testing.assert_close(tdm_terms("triplet", TOPICS, TEXTS, 0.2), expected)
    expected = torch.tensor([2 - 3 + 1.5, 4 - math.sqrt(13) + 1.5])
    torch.testing.assert_close(tdm_terms("triplet", TOPICS, TEXTS, 1.5), expected)
    topics, texts = torch.zeros(3, 1), torch.tensor([[1.0], [2.0], [4.0]])  # the other text is the next
    assert tdm_terms("triplet", topics, texts, 9).flatten().tolist() == [1 - 2 + 9, 2 - 4 + 9, 4 - 1 + 9]


def test_triplets_of_length_one_see_angles_alone() -> None:
    """Of vectors at angles of 0 and 90 degrees the distances are 0 and √2, whatever their lengths."""
    topics, texts = torch.tensor([[5.0, 0], [0, 0.1]]), torch.tensor([[0.3, 0], [0, 9.0]])
    torch.testing.assert_close(tdm_terms("unit-triplet", topics, texts, 0.2), torch.zeros(2))
    expected = torch.full((2,), 0.2 + math.sqrt(2))
    torch.testing.assert_close(tdm_terms("unit-triplet", topics, texts.flip(0), 0.2), expected)


def test_the_ablation_by_hand() -> None:
    torch.testing.assert_close(tdm_terms("l2", TOPICS, TEXTS, 0), torch.tensor([4 / 3, 16 / 3]))
    topics, texts = torch.tensor([[0.0, math.log(3)]]), torch.tensor([[math.log(4), 0.0]])  # ¼ ¾ and ⅘ ⅕
    crossed = -(0.25 * math.log(0.8) + 0.75 * math.log(0.2))
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    torch.testing.assert_close(tdm_terms("cross-entropy", topics, texts, 0), torch.tensor([crossed]))
    torch.testing.assert_close(tdm_terms("kl", topics, texts, 0), torch.tensor([crossed - entropy]))
    torch.testing.assert_close(tdm_terms("kl", topics, topics, 0), torch.zeros(1))
    assert tdm_terms("none", TOPICS, TEXTS, 0.2).tolist() == [0, 0]


# Two texts of two tokens and one; two topics.
TARGET = torch.tensor([[5, 6], [7, PAD]])
WEIGHTS = torch.tensor([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.9, 0.1]]])
EMBEDDINGS = torch.tensor([[4.0, 0, 0], [0, 8.0, 0]])
HIDDEN = torch.tensor([[[0.0, 4, 0], [2.0, 4, 0]], [[4.0, 0, 1], [9.0, 9, 9]]])
SAMPLE = {"net_input": {"src_tokens": TARGET}, "target": TARGET, "ntokens": 3}


def test_loss_by_hand() -> None:
    """z is (1 6 0) and (4 0 0), the texts' means are (1 4 0) and (4 0 1)."""
    given = torch.tensor(-9.0), WEIGHTS, EMBEDDINGS
    log_prob, weights, embeddings = (value.clone().requires_grad_() for value in given)
    extra = {"log_prob": log_prob, "topic_weights": weights, "topic_embeddings": embeddings, "hidden": HIDDEN}
    model, margin = Mock(return_value=(None, extra)), 7.0
    terms = [2 - math.sqrt(9 + 36 + 1) + margin, 1 - math.sqrt(9 + 16) + margin]
    loss, sample_size, log = TopicLanguageModelingCriterion(TASK, False, "triplet", margin, 0.5)(model, SAMPLE)
    assert sample_size == 3
    assert loss.item() == pytest.approx(9 + 0.5 * (2 * terms[0] + 1 * terms[1]))
    assert log["loss"].item() == 9
    assert log["tdm_loss"].item() == pytest.approx(sum(terms))
    assert log["topic_weights"].tolist() == pytest.approx([0.5 + 1, 1.5])
    loss.backward()
    assert log_prob.grad.item() == -1
    assert embeddings.grad.any()
    assert weights.grad[0].any()
    assert not weights.grad[1, 1].any()  # padding


def test_logs_of_workers_sum_to_figures_of_all() -> None:
    logs = [
        {"loss": 3.0, "tdm_loss": 1.0, "topic_weights": torch.tensor([4.0, 0.0, 0.0]), "ntokens": 4, "nsentences": 2,
         "sample_size": 4},
        {"loss": 9.0, "tdm_loss": 0.5, "topic_weights": torch.tensor([0.0, 4.0, 0.2]), "ntokens": 4, "nsentences": 4,
         "sample_size": 4},
    ]  # fmt: skip
    summed = {key: sum(log[key] for log in logs) for key in logs[0]}
    usage = np.array([4, 4, 0.2]) / 8
    for reductions in ([logs], [[summed]], [[logs[0]], [logs[1]]]):
        with metrics.aggregate(new_root=True) as shown:
            for reduced in reductions:
                TopicLanguageModelingCriterion.reduce_metrics(reduced)
        values = shown.get_smoothed_values()
        assert values["loss"] == pytest.approx(12 / 8 / math.log(2), abs=1e-3)
        assert values["ppl"] == pytest.approx(math.exp(12 / 8), rel=1e-2)
        assert values["tdm_loss"] == pytest.approx(1.5 / 6, abs=1e-4)
        assert values["topic_entropy"] == pytest.approx(-(usage * np.log2(usage)).sum(), abs=1e-3)
        assert values["dead_topics"] == 1
        assert not any(key.startswith("_") for key in values)

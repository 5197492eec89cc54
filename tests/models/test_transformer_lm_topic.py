"""What the topic aware transformer promises."""

from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from fairseq_ext.criterions.topic_language_modeling import TopicLanguageModelingCriterion
from tests import toy, toy_text

PAD = 1


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_text.make_text(tmp_path_factory.mktemp("text"))


def make_model(text: Path, *words: str) -> tuple[Any, Any]:
    """The task, and a model whose topics have been somewhere."""
    task, options = toy_text.make_task(text, "--num-topics", "3", *words, arch="transformer_lm_topic_tiny")
    return task, randomise(toy.make_model(task, options))


def randomise(model: Any) -> Any:
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.decoder.topics.parameters():
            nn.init.normal_(parameter, std=0.3)
    return model


def tokens_of(rows: int = 4, length: int = 7) -> Tensor:
    return torch.randint(4, 34, (rows, length), generator=torch.Generator().manual_seed(3))


def test_topic_0_is_its_base_exactly(text: Path) -> None:
    base = toy.make_model(*toy_text.make_task(text, arch=toy_text.PLAIN), seed=7)
    _, model = make_model(text, "--freeze-output-embedding")
    model.load_state_dict(dict(base.state_dict()), strict=True)
    randomise(model).decoder.forced_topic = 0
    assert torch.equal(model(tokens_of())[0], base(tokens_of())[0])


def test_its_extras(text: Path) -> None:
    """Eq. 2 from what the model hands out; a forced topic counts but in training."""
    _, model = make_model(text)
    scores, extra = model(tokens_of())
    hidden, weights = extra["hidden"], extra["topic_weights"]
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, 7))
    logits = [model.decoder.topics.steering.steer(hidden, z) @ model.decoder.output_weight.t() for z in range(4)]
    mixed = sum(weights[..., [z]] * logits[z].softmax(-1) for z in range(4))
    torch.testing.assert_close(scores.exp(), mixed)
    normed = model.decoder.topics.steering.norm(hidden)
    torch.testing.assert_close((normed @ extra["topic_embeddings"].t()).softmax(-1), weights)
    model.decoder.forced_topic = 2
    torch.testing.assert_close(model(tokens_of())[0], logits[2])
    model.train()
    torch.testing.assert_close(model.decoder.output_layer(hidden).exp(), mixed)


def test_both_criterions_have_the_same_gradient(text: Path) -> None:
    task, model = make_model(text)
    source, target = tokens_of(4, 8)[:, :-1].clone(), tokens_of(4, 8)[:, 1:].clone()
    source[-1, 4:] = target[-1, 4:] = PAD
    batch = {"net_input": {"src_tokens": source}, "target": target, "ntokens": int(target.ne(PAD).sum())}
    gradients = []
    for criterion in (
        TopicLanguageModelingCriterion(task, False, "none", 0.2, 0.5),
        CrossEntropyCriterion(task, sentence_avg=False),
    ):
        model.zero_grad()
        criterion(model, batch)[0].backward()
        gradients.append([p.grad.clone() for p in model.decoder.topics.parameters()])
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("mixture", ["softmaxes", "logits"])
def test_generated_scores_equal_forced_ones(text: Path, mixture: str) -> None:
    """Cached decoding follows the beam."""
    _, model = make_model(text, "--mixture", mixture)
    dictionary, prompts = model.decoder.dictionary, tokens_of(3, 4)
    generator = SequenceGenerator([model], dictionary, beam_size=3, max_len_a=0, max_len_b=7)
    sample = {"net_input": {"src_tokens": prompts, "src_lengths": torch.full((3,), 4)}}
    for best, *_ in generator.generate([model], sample, prefix_tokens=prompts, bos_token=dictionary.eos()):
        tokens = best["tokens"]
        forced_input = torch.cat([tokens.new_tensor([dictionary.eos()]), tokens[:-1]])[None]
        with torch.no_grad():
            scores = model(forced_input)[0].log_softmax(-1)[0].gather(1, tokens[:, None]).squeeze(1)
        torch.testing.assert_close(scores, best["positional_scores"], atol=1e-4, rtol=0)

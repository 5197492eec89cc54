"""What the topic aware transformer promises."""

from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from tests import toy, toy_text

PAD = 1


def make_model(text: Path, *words: str) -> Any:
    """One whose topics have been somewhere."""
    options = ("--num-topics", "3", *words)
    return randomise(toy.make_model(*toy_text.make_task(text, *options, arch="transformer_lm_topic_tiny")))


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
    model = make_model(text, "--freeze-output-embedding")
    model.load_state_dict(dict(base.state_dict()), strict=True)
    randomise(model).decoder.forced_topic = 0
    assert torch.equal(model(tokens_of())[0], base(tokens_of())[0])


def test_targets_are_scored_as_all_words_are_and_a_forced_topic_counts_but_in_training(text: Path) -> None:
    model, tokens, targets = make_model(text), tokens_of(), tokens_of().flip(1)
    targets[-1, 4:] = PAD
    scores, extra = model(tokens)
    is_token = targets.ne(PAD)
    expected = scores.gather(2, targets.unsqueeze(2)).squeeze(2)[is_token].sum()
    features, found = model(tokens, targets=targets)
    assert torch.equal(features, extra["hidden"])
    torch.testing.assert_close(found["log_prob"], expected)
    decoder = model.decoder
    decoder.forced_topic = 2
    alone = decoder.topics.steering.steer(features, 2) @ decoder.output_weight.t()
    torch.testing.assert_close(model(tokens)[0], alone)
    model.train()
    torch.testing.assert_close(decoder.output_layer(features), scores)


@pytest.mark.parametrize("mixture", ["softmaxes", "logits"])
def test_generated_scores_equal_forced_ones(text: Path, mixture: str) -> None:
    """Cached decoding follows the beam."""
    model = make_model(text, "--mixture", mixture)
    dictionary, prompts = model.decoder.dictionary, tokens_of(3, 4)
    generator = SequenceGenerator([model], dictionary, beam_size=3, max_len_a=0, max_len_b=7)
    sample = {"net_input": {"src_tokens": prompts, "src_lengths": torch.full((3,), 4)}}
    for best, *_ in generator.generate([model], sample, prefix_tokens=prompts, bos_token=dictionary.eos()):
        tokens = best["tokens"]
        forced_input = torch.cat([tokens.new_tensor([dictionary.eos()]), tokens[:-1]])[None]
        with torch.no_grad():
            scores = model(forced_input)[0].log_softmax(-1)[0].gather(1, tokens[:, None]).squeeze(1)
        torch.testing.assert_close(scores, best["positional_scores"], atol=1e-4, rtol=0)

"""What the topic aware transformer promises."""

import copy
import functools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq import options as fairseq_options
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models.transformer_lm import TransformerLanguageModel
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn

from fairseq_ext.criterions.topic_language_modeling import TopicLanguageModelingCriterion
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.transformer_lm_topic import TransformerLMTopicModel
from tests import toy

KINDS = {"affine": {"matrix", "offset"}, "multiplication": {"gain"}, "addition": {"goal", "omega"}}
STEERING = "decoder.topics.steering"
OUTPUT = "decoder.topics.output_weight"
PAD = 1


def make_task() -> Any:
    dictionary = Dictionary()
    for n in range(30):
        dictionary.add_symbol(f"w{n}")
    return SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)


@functools.cache
def default_config(arch: str) -> Any:
    """The model's options as fairseq's command line makes them."""
    words = ["data", "--arch", arch, "--optimizer", "adam", "--task", "language_modeling", "--tokens-per-sample", "64"]
    args = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), words)
    return toy.model_options(args)


def make_config(arch: str = "transformer_lm_topic_tiny", **options: Any) -> Any:
    config = copy.deepcopy(default_config(arch))
    for name, value in ({"dropout": 0.0, "attention_dropout": 0.0} | options).items():
        config[name] = value
    return config


def make_model(seed: int = 1, **options: Any) -> Any:
    torch.manual_seed(seed)
    return TransformerLMTopicModel.build_model(make_config(**({"num_topics": 3} | options)), make_task()).eval()


def make_base(**options: Any) -> Any:
    torch.manual_seed(7)
    return TransformerLanguageModel.build_model(make_config("transformer_lm_tiny", **options), make_task()).eval()


def on_base(base: Any, **options: Any) -> Any:
    """A model that starts from a base checkpoint."""
    model = make_model(**options)
    model.load_state_dict(copy.deepcopy(base.state_dict()), strict=True)
    return model


@pytest.fixture
def model() -> Any:
    """A model in evaluation mode whose topics have been somewhere."""
    return randomise(make_model())


def randomise(model: Any) -> Any:
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.decoder.topics.parameters():
            nn.init.normal_(parameter, std=0.3)
    return model


def tokens_of(rows: int = 4, length: int = 9) -> Tensor:
    return torch.randint(4, 34, (rows, length), generator=torch.Generator().manual_seed(3))


def batch_of(rows: int = 4, length: int = 9) -> dict:
    """Rows of text, the last one of half the length."""
    text = tokens_of(rows, length + 1)
    text[-1, length // 2 + 1 :] = PAD
    source, target = text[:, :-1].clone(), text[:, 1:].contiguous()
    source[target.eq(PAD)] = PAD
    return {"net_input": {"src_tokens": source}, "target": target, "ntokens": int(target.ne(PAD).sum())}


def log_probs(model: Any, tokens: Tensor) -> Tensor:
    with torch.no_grad():
        return model.get_normalized_probs(model(tokens), log_probs=True)


def added(kind: str) -> set[str]:
    own = {"norm.weight", "norm.bias", "embeddings"} | {f"transformation.{name}" for name in KINDS[kind]}
    return {f"{STEERING}.{name}" for name in own} | {OUTPUT}


# What an imported GPT-2 has, and a model with an output embedding of its own.
GPT2 = {"decoder_learned_pos": True, "no_scale_embedding": True, "activation_fn": "gelu_accurate"}
UNTIED = {"share_decoder_input_output_embed": False}


def test_topic_0_is_its_base_exactly() -> None:
    base = make_base()
    model = randomise(on_base(base, freeze_output_embedding=True))
    model.decoder.forced_topic = 0
    assert torch.equal(model(tokens_of())[0], base(tokens_of())[0])


def test_its_extras(model: Any) -> None:
    """Eq. 2 from what the model hands out."""
    scores, extra = model(tokens_of())
    hidden, weights = extra["hidden"], extra["topic_weights"]
    assert weights.shape == (4, 9, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, 9))
    states = [model.decoder.topics.steering.steer(hidden, z) for z in range(4)]
    probs = [(h @ model.decoder.output_weight.t()).softmax(-1) for h in states]
    mixed = sum(weights[..., [z]] * probs[z] for z in range(4))
    torch.testing.assert_close(scores.exp(), mixed)
    normed = model.decoder.topics.steering.norm(hidden)
    torch.testing.assert_close((normed @ extra["topic_embeddings"].t()).softmax(-1), weights)


def test_a_forced_topic_is_that_topic_but_in_training(model: Any) -> None:
    mixed = model(tokens_of())[0]
    hidden = model(tokens_of())[1]["hidden"]
    model.decoder.forced_topic = 2
    alone = model.decoder.topics.steering.steer(hidden, 2) @ model.decoder.output_weight.t()
    torch.testing.assert_close(model(tokens_of())[0], alone)
    torch.testing.assert_close(model.train()(tokens_of())[0], mixed)


def test_both_criterions_have_the_same_gradient(model: Any) -> None:
    batch = batch_of()
    plain = TopicLanguageModelingCriterion(make_task(), False, "none", 0.2, 0.5)
    gradients = []
    for criterion in (plain, CrossEntropyCriterion(make_task(), sentence_avg=False)):
        model.zero_grad()
        criterion(model, batch)[0].backward()
        gradients.append([p.grad.clone() for p in model.decoder.topics.parameters()])
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("mixture", ["softmaxes", "logits"])
@pytest.mark.parametrize("beam", [1, 3])
def test_generated_scores_equal_forced_ones(mixture: str, beam: int) -> None:
    """Cached decoding follows the beam."""
    check_generation(randomise(make_model(mixture=mixture)), beam_size=beam)


def check_generation(model: Any, temperature: float = 1.0, **options: Any) -> None:
    dictionary = model.decoder.dictionary
    prompts = tokens_of(3, 4)
    generator = SequenceGenerator([model], dictionary, max_len_a=0, max_len_b=12, temperature=temperature, **options)
    sample = {"net_input": {"src_tokens": prompts, "src_lengths": torch.full((3,), 4)}}
    for best, *_ in generator.generate([model], sample, prefix_tokens=prompts, bos_token=dictionary.eos()):
        tokens = best["tokens"]
        forced_input = torch.cat([tokens.new_tensor([dictionary.eos()]), tokens[:-1]])[None]
        with torch.no_grad():
            scores = (model(forced_input)[0] / temperature).log_softmax(-1)[0]
        scores = scores.gather(1, tokens[:, None]).squeeze(1)
        torch.testing.assert_close(scores, best["positional_scores"], atol=1e-4, rtol=0)


def test_impossible_options() -> None:
    for option, value in (("num_topics", -1), ("topic_omega", 1.5), ("mixture_chunk", 0)):
        with pytest.raises(InputError, match=f"--{option.replace('_', '-')} {value}: give"):
            make_model(**{option: value})

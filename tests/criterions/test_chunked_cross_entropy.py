"""The loss in chunks is fairseq's ``cross_entropy``: its sum, its gradients and its counts, whatever the chunk."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig
from torch import Tensor

from fairseq_ext.criterions.chunked_cross_entropy import ChunkedCrossEntropyCriterion
from tests.models.test_causal_lm import build, dictionary_of, randomised
from tests.models.tiny_causal import make_causal


def of_hugging_face(folder: Path) -> tuple[torch.nn.Module, Namespace]:
    config = make_causal(folder / "llama").config
    dictionary, _ = dictionary_of(folder / "llama", config, folder)
    model = randomised(build(folder / "llama", dictionary, "causal_lm", train_blocks=1))
    return model, Namespace(target_dictionary=dictionary)


def of_fairseq(folder: Path) -> tuple[torch.nn.Module, Namespace]:
    """A model of fairseq's, whose output layer is trained."""
    dictionary, _ = dictionary_of(folder / "llama", make_causal(folder / "llama").config, folder)
    sizes = {"decoder_embed_dim": 16, "decoder_output_dim": 16, "decoder_input_dim": 16, "decoder_ffn_embed_dim": 8}
    cfg = TransformerLanguageModelConfig(**sizes, decoder_layers=2, decoder_attention_heads=2, max_target_positions=32)
    torch.manual_seed(1)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    return TransformerLanguageModel.build_model(cfg, task).eval(), task


@pytest.mark.parametrize("make", [of_hugging_face, of_fairseq])
def test_equals_the_whole_loss(tmp_path: Path, make: Callable[[Path], tuple[Any, Any]]) -> None:
    model, task = make(tmp_path)
    target = torch.randint(4, 90, (3, 7), generator=torch.Generator().manual_seed(2))
    target[1, 4:] = target[2, 1:] = task.target_dictionary.pad()
    tokens = target.roll(1, 1)
    sample = {
        "net_input": {"src_tokens": tokens, "src_lengths": torch.tensor([7, 4, 1])},
        "target": target,
        "ntokens": int(target.ne(task.target_dictionary.pad()).sum()),
    }

    def result(criterion: Any) -> tuple[Tensor, int, dict, list[Tensor]]:
        loss, size, log = criterion(model, sample)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        return loss.detach(), size, log, list(torch.autograd.grad(loss, trained))

    loss, size, log, gradients = result(CrossEntropyCriterion(task, sentence_avg=False))
    assert len(gradients) > 5
    assert sum(float(gradient.norm()) for gradient in gradients) > 1
    for chunk in (1, 5, 1000):
        ours = result(ChunkedCrossEntropyCriterion(task, sentence_avg=False, chunk=chunk))
        torch.testing.assert_close(ours[0], loss)
        assert ours[1] == size
        assert {key: float(value) for key, value in ours[2].items()} == pytest.approx(
            {key: float(value) for key, value in log.items()}
        )
        for one, other in zip(ours[3], gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert result(ChunkedCrossEntropyCriterion(task, sentence_avg=True, chunk=5))[1] == len(target)

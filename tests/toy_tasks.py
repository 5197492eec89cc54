"""A toy world for classification: a base of some thousand weights, tasks of a few labels, checkpoints of both."""

import functools
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.models.roberta import RobertaModel
from torch import Tensor, nn

from fairseq_ext.models.roberta_houlsby_adapter import RobertaHoulsbyAdapterModel
from tests import toy

ADAPTED, PLAIN = "roberta_houlsby_adapter_tiny", "roberta_tiny"
LABELS = ("bad", "good", "mixed")
WORDS = 30
PAD, POSITIONS, WIDTH = 1, 24, 32


def make_dictionary(symbols: Sequence[str] = ()) -> Dictionary:
    """With ``<mask>`` behind the symbols, as fairseq's tasks load it."""
    dictionary = Dictionary()
    for symbol in [*(symbols or [f"w{n}" for n in range(WORDS)]), "<mask>"]:
        dictionary.add_symbol(symbol)
    return dictionary


def make_task(labels: Sequence[str] = LABELS, words: int = WORDS) -> Any:
    """All that a model takes of a task; without labels it is a regression."""
    return SimpleNamespace(
        source_dictionary=make_dictionary([f"w{n}" for n in range(words)]),
        label_dictionary=make_dictionary(labels),
        cfg=SimpleNamespace(regression_target=not labels),
    )


@functools.cache
def _parse(arch: str) -> Namespace:
    line = ["data", "--arch", arch, "--task", "sentence_prediction", "--criterion", "sentence_prediction"]
    return options.parse_args_and_arch(options.get_training_parser(), [*line, "--optimizer", "adam"])


def make_args(arch: str = ADAPTED, **given: Any) -> Namespace:
    """All options as fairseq's command line makes them, but for those given."""
    fixed = {"max_positions": POSITIONS, "dropout": 0.0, "attention_dropout": 0.0, "num_classes": len(LABELS)}
    return Namespace(**{**vars(_parse(arch)), **fixed, **given})


def make_model(
    name: str = "sst2", seed: int = 1, labels: Sequence[str] = LABELS, words: int = WORDS, **given: Any
) -> RobertaHoulsbyAdapterModel:
    """A model with one fresh task, in evaluation mode."""
    torch.manual_seed(seed)
    model = RobertaHoulsbyAdapterModel.build_model(make_args(**given), make_task(labels, words))
    model.register_classification_head(name, len(labels) or 1)
    return model.eval()


def make_base(seed: int = 1, words: int = WORDS, **given: Any) -> RobertaModel:
    """The plain RoBERTa of the same size; its norms have been somewhere."""
    torch.manual_seed(seed)
    base = RobertaModel.build_model(make_args(PLAIN, **given), make_task(words=words)).eval()
    with torch.no_grad():
        for name, parameter in base.named_parameters():
            if "norm" in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return base


def randomise(model: RobertaHoulsbyAdapterModel, name: str = "sst2", seed: int = 2) -> RobertaHoulsbyAdapterModel:
    """Give a task values far from its start, so that they matter."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in [*model.tasks[name].parameters(), *model.classification_heads[name].parameters()]:
            nn.init.normal_(parameter, std=0.4)
    return model


def copy_of(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """What a file would give back; loading changes a state dict in place."""
    return {key: value.clone() for key, value in state.items()}


def started_from(model: RobertaHoulsbyAdapterModel, state: dict[str, Tensor]) -> RobertaHoulsbyAdapterModel:
    model.load_state_dict(copy_of(state), strict=True)
    return model


def tokens_of(rows: int = 4, length: int = 9, words: int = WORDS) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(4, 4 + words, (rows, length), generator=generator)
    tokens[:, 0] = 0
    return tokens


def logits(model: Any, name: str, tokens: Tensor | None = None) -> Tensor:
    """B×C."""
    with torch.no_grad():
        out: Tensor = model(tokens_of() if tokens is None else tokens, classification_head_name=name)[0]
    return out


def train(model: RobertaHoulsbyAdapterModel, name: str, steps: int = 3) -> None:
    """Real steps of an optimiser on made-up targets."""
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    tokens = tokens_of(8)
    classes = model.classification_heads[name].out_proj.out_features
    model.train()
    for _ in range(steps):
        optimiser.zero_grad()
        out = model(tokens, classification_head_name=name)[0]
        nn.functional.cross_entropy(out, torch.arange(8) % classes).backward()
        optimiser.step()
    model.eval()


def write_checkpoint(path: Path, model: Any, arch: str = ADAPTED, **given: Any) -> Path:
    return toy.write_checkpoint(path, make_args(arch, **given), model)

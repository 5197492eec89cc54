"""Train recurrent language models: all combinations, compared with torch's GRU.

Every round is one update of each model (forward, backward, SGD) on random text. Defaults are the paper's sizes. torch's
GRU processes all steps in one call (cuDNN on a GPU), and its cell differs: it resets after the matrix product.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.shared.cases import Case, Ready

UNIT = "words/s"
# As in training runs that a pipeline starts; peaks are not measured.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
_TORCH = "nn.GRU"
_COMBINATIONS = ("none", "fixed", "wvc", "wvs", "cvc", "wcvc", "cvs", "wcvs", "wvg", "cvg", "dagru")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--embed-dim", type=int, default=300, help="width of both kinds of word vectors")
    parser.add_argument("--hidden-dim", type=int, default=600, help="hidden units")
    parser.add_argument("--vocabulary", type=int, default=10000, help="vocabulary size")
    parser.add_argument("--rows", type=int, default=20, help="rows per batch")
    parser.add_argument("--length", type=int, default=40, help="tokens per row")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--matmul-precision", default="highest", help="value of the tasks' option of this name")


def cases(options: argparse.Namespace) -> list[Case]:
    amount = options.rows * options.length
    return [
        Case(name, partial(_prepare, name, options), amount, () if name == _TORCH else (_TORCH,))
        for name in (_TORCH, *_COMBINATIONS)
    ]


def _prepare(name: str, options: argparse.Namespace, folder: Path) -> Ready:
    """Prepare one update on T×B random tokens."""
    import torch
    import torch.nn.functional as F

    torch.manual_seed(1)
    torch.set_float32_matmul_precision(options.matmul_precision)
    model = (_torch_model(options) if name == _TORCH else _combined_model(name, options)).to(options.device).train()
    text = torch.randint(options.vocabulary, (options.length + 1, options.rows), device=options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(text[:-1]).flatten(0, 1), text[1:].flatten()).backward()
        optimizer.step()
        if options.device == "cuda":
            torch.cuda.synchronize()

    return Ready(run, {"parameters": sum(parameter.numel() for parameter in model.parameters())})


def _torch_model(options: argparse.Namespace) -> Any:
    """Return a model of word vectors, torch's GRU and an output layer."""
    from torch import Tensor, nn

    class TorchLanguageModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(options.vocabulary, options.embed_dim)
            self.gru = nn.GRU(options.embed_dim, options.hidden_dim)
            self.output = nn.Linear(options.hidden_dim, options.vocabulary)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.output(self.gru(self.embed(tokens))[0])

    return TorchLanguageModel()


def _combined_model(name: str, options: argparse.Namespace) -> Any:
    """Return a model with additional general-domain word vectors."""
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn

    from fairseq_ext.modules.combinations import COMBINATIONS
    from fairseq_ext.modules.domain_adapted_gru import DomainAdaptedGRU

    class CombinedLanguageModel(nn.Module):
        general: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(options.vocabulary, options.embed_dim)
            self.register_buffer("general", torch.randn(options.vocabulary, options.embed_dim))
            self.gru = DomainAdaptedGRU(COMBINATIONS[name], options.embed_dim, options.embed_dim, options.hidden_dim)
            self.output = nn.Linear(self.gru.output_dim, options.vocabulary)

        def forward(self, tokens: Tensor) -> Tensor:
            initial = self.output.weight.new_zeros(2, tokens.size(1), self.gru.hidden_dim)
            return self.output(self.gru(self.embed(tokens), F.embedding(tokens, self.general), initial)[0])

    return CombinedLanguageModel()

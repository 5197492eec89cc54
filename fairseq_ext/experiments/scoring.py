"""Loaded language models: states of text, and its likelihood by line, by domain and tree path, or as one long text.

For the likelihood by domain, the task cuts and batches text as for ``fairseq-eval-lm``. Routing is set here for each
batch, so that one process can measure several routings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from fairseq import checkpoint_utils, utils
from fairseq.data import Dictionary, TokenBlockDataset, data_utils
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from fairseq_ext import install
from fairseq_ext.base.domain_tree import DomainTree, Paths
from fairseq_ext.base.errors import InputError
from fairseq_ext.models.base_layout import BASE_MODEL
from fairseq_ext.models.checkpoints import model_options
from fairseq_ext.models.transformer_lm_hier_adapter import node_weights_of
from fairseq_ext.modules.autocast import chosen_device
from fairseq_ext.tasks.multi_domain_language_modeling import (
    MultiDomainLanguageModelingConfig,
    MultiDomainLanguageModelingTask,
)
from fairseq_ext.text.split import stable_hash
from fairseq_ext.text.subwords import DICT_FILE

Batch = dict[str, Any]
# Options of the task that the command line would copy from other groups.
_OF_OTHER_GROUPS: dict[str, Any] = {
    **{"train_subset": "train", "valid_subset": "valid", "num_shards": 1, "shard_id": 0, "seed": 1},
    **{"batch_size": None, "batch_size_valid": None, "dataset_impl": None, "data_buffer_size": 0},
    **{"tpu": False, "use_plasma_view": False, "plasma_path": ""},
}
_BATCH_TOKENS = 8192
# Weights with one row per symbol, of Transformers and GRUs.
_SYMBOLS = ("decoder.embed_tokens.weight", "decoder.output.weight")


@dataclass(frozen=True)
class LanguageModel:
    """A language model that encodes and scores text."""

    model: Any  # fairseq model, in evaluation mode, on its device
    dictionary: Dictionary
    tokens_per_sample: int  # block length in training

    @classmethod
    def load(cls, checkpoint: Path, data: Path, *, cpu: bool = False) -> LanguageModel:
        """Load a language model. Its dictionary must be the one in the data directory."""
        install()
        state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
        path = data / DICT_FILE
        if not path.is_file():
            raise InputError(f"{path}: not found; give the data directory of this language model")
        dictionary = Dictionary.load(str(path))
        _check_checkpoint(state, len(dictionary), checkpoint, path)
        # The model needs only the dictionary of its task, so any task will do.
        task = LanguageModelingTask(LanguageModelingConfig(), dictionary, dictionary, targets=["future"])
        (model,), config, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], task=task, state=state)
        device = chosen_device(cpu)
        length = getattr(config.task, "tokens_per_sample", None) or model.max_positions()
        return cls(model.to(device).float().eval(), dictionary, min(length, model.max_positions()))

    def encode(self, blocks: Tensor) -> np.ndarray:
        """Return the average state of each block: N×T token indices → N×H, float32.

        Only the base is used, without adapters, so the states of a text are the same before and after training.
        """
        size, device = max(1, _BATCH_TOKENS // blocks.shape[1]), next(self.model.parameters()).device
        without = torch.zeros(1, len(self.model.tree.names)) if hasattr(self.model, "tree") else None
        with torch.inference_mode(), node_weights_of(without):
            return torch.cat([self._mean_states(rows.to(device)).cpu() for rows in blocks.split(size)]).numpy()

    def _mean_states(self, tokens: Tensor) -> Tensor:
        """Average the last hidden states over each row's tokens, zero if it has none: B×T → B×H, float32."""
        features, _ = self.model.decoder.extract_features(tokens, encoder_out=None)  # B×T×H
        is_token = tokens.ne(self.dictionary.pad())
        weights = is_token.float() / is_token.sum(1, keepdim=True).clamp(min=1)
        return torch.einsum("bth,bt->bh", features.float(), weights)

    def block_length(self, tokens: int) -> int:
        """Return the requested block length; 0 stands for the block length in training."""
        longest = int(self.model.max_positions())
        if tokens > longest:
            raise InputError(f"--tokens: {tokens} is too long for the model; set 1 to {longest}, or 0 for its default")
        return tokens or self.tokens_per_sample

    def draw_blocks(
        self, text: Path, length: int, count: int, seed: int, *, domain: str, takes_fewer: bool = False
    ) -> Tensor:
        """Sample blocks of a binarised text without replacement, in its order: count×T.

        The text is cut into blocks of ``length`` tokens (T). An incomplete last block is dropped. Too few blocks are an
        error unless ``takes_fewer``. Each ``domain`` is sampled independently of others.
        """
        if not text.with_suffix(".idx").is_file():
            raise InputError(f"{text}.idx: not found; give a data directory with this domain, or another --split")
        lines = data_utils.load_indexed_dataset(str(text), self.dictionary)
        ends = {"pad": self.dictionary.pad(), "eos": self.dictionary.eos()}
        blocks = TokenBlockDataset(lines, lines.sizes, length, break_mode="none", **ends)
        available = int(lines.sizes.sum()) // length
        if available < (1 if takes_fewer else count):
            raise InputError(
                f"{text}: has {available} blocks of {length} tokens, but {count} are needed; lower "
                f"--sequences{f' to {available}' if available else ''} or --tokens, or omit the domain"
            )
        generator = np.random.default_rng(stable_hash(seed, "blocks", domain))
        rows = np.sort(generator.permutation(available)[:count])
        return torch.stack([blocks[row] for row in rows.tolist()])

    def score_lines(self, lines: Iterable[str], max_tokens: int) -> np.ndarray:
        """Compute natural log probabilities of N lines of subwords, including their ends, given an initial ``</s>``: N.

        ``max_tokens`` is the maximum number of tokens in a batch; single lines may be longer.
        """
        pad, device = self.dictionary.pad(), next(self.model.parameters()).device
        targets = [self.dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
        lengths, scores = np.array([len(target) for target in targets]), np.zeros(len(targets))
        # Batches of lines with similar length need less padding.
        order, limit = np.argsort(lengths, kind="stable"), max(max_tokens, lengths.max())
        batches = data_utils.batch_by_size(order, None, lengths[order], max_tokens=limit)
        for rows in tqdm(batches, desc="score", unit=" batches", disable=None):
            batch = [targets[row] for row in rows]
            target = pad_sequence(batch, batch_first=True, padding_value=pad).to(device)  # B×T
            source = target.roll(1, dims=1)
            source[:, 0] = self.dictionary.eos()
            with torch.inference_mode():
                losses = token_losses(self.model(source)[0], target).double()
            scores[rows] = -losses.mul(target.ne(pad)).sum(1).cpu().numpy()
        return scores


def _check_checkpoint(state: dict[str, Any], num_symbols: int, checkpoint: Path, dictionary: Path) -> None:
    weights = state["model"]
    if model_options(state).get(BASE_MODEL):  # checks the dictionary itself
        return
    if any(name.startswith("encoder.") for name in weights) or not any(n.startswith("decoder.") for n in weights):
        raise InputError(f"{checkpoint}: is not a language model; use a checkpoint of a transformer_lm")
    for name in _SYMBOLS:
        if name in weights and len(weights[name]) != num_symbols:
            raise InputError(
                f"{checkpoint}: has {len(weights[name])} symbols, but {dictionary} has {num_symbols}; "
                "give the data directory of this language model"
            )


@dataclass
class Likelihood:
    """Likelihood of a text."""

    nats: float = 0.0  # negative log-likelihood
    tokens: int = 0

    @property
    def loss(self) -> float:
        """Nats per token."""
        return self.nats / self.tokens

    def add(self, losses: Tensor) -> None:
        """Add token losses."""
        # Sum in double precision, because there may be millions of tokens.
        self.nats += losses.double().sum().item()
        self.tokens += losses.numel()


@dataclass(frozen=True)
class LanguageModelScorer:
    """A language model, and the text of a data directory in blocks."""

    model: Any  # fairseq model, in evaluation mode, on its device
    task: Any  # ``multi_domain_language_modeling`` with the data
    max_tokens: int  # per batch; at least one block

    @classmethod
    def load(
        cls,
        checkpoint: Path,
        data: Path,
        *,
        tokens_per_sample: int,
        max_tokens: int = 4096,
        cpu: bool = False,
        by_line: bool = False,
    ) -> LanguageModelScorer:
        """Load a checkpoint and a data directory. With ``by_line``, each line is a block, truncated if too long."""
        install()
        options = MultiDomainLanguageModelingConfig(
            data=str(data),
            tokens_per_sample=tokens_per_sample,
            sample_break_mode="eos" if by_line else "none",
            shorten_method="truncate" if by_line else "none",
            **_OF_OTHER_GROUPS,
        )
        task = MultiDomainLanguageModelingTask.setup_task(options)
        (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], task=task)
        if tokens_per_sample > model.max_positions():
            raise InputError(
                f"tokens-per-sample: {tokens_per_sample} is too long for {checkpoint}; set at most "
                f"{model.max_positions()}"
            )
        if task.tree is not None:
            # Routing weights are set here, and the task has none for domains outside the tree.
            task.cfg.paths = "none"
        return cls(model.to(chosen_device(cpu)).eval(), task, max(max_tokens, tokens_per_sample))

    @property
    def tree(self) -> DomainTree | None:
        """Tree of the model, or None if it has no adapters."""
        tree: DomainTree | None = self.task.tree
        return tree

    def batches(self, domain: str, split: str) -> list[Batch]:
        """Return all blocks of a domain's set, in the batches of the task."""
        limits = {"max_tokens": self.max_tokens, "max_positions": self.model.max_positions()}
        return list(self.task.eval_lm_dataloader(self._load(domain, split), **limits, num_workers=0))

    def drawn_batches(self, domain: str, split: str, count: int, seed: int) -> tuple[list[Batch], int]:
        """Sample up to ``count`` blocks of a domain's set, and return their batches and their number."""
        dataset = self._load(domain, split)
        drawn = np.sort(np.random.default_rng(stable_hash(seed, "paths", domain)).permutation(len(dataset))[:count])
        return self._collate(dataset, drawn), len(drawn)

    def chosen_batches(self, domain: str, split: str, numbers: np.ndarray) -> list[Batch]:
        """Return the blocks of a domain's set with these indices, grouped by length."""
        dataset = self._load(domain, split)
        return self._collate(dataset, numbers[np.argsort(dataset.num_tokens_vec(numbers), kind="stable")])

    def _load(self, domain: str, split: str) -> Any:
        name = f"{split}:{domain}"
        self.task.load_dataset(name)
        return self.task.dataset(name)

    def _collate(self, dataset: Any, numbers: np.ndarray) -> list[Batch]:
        size = max(1, self.max_tokens // int(dataset.sizes.max()))
        parts = [numbers[start : start + size].tolist() for start in range(0, len(numbers), size)]
        return [dataset.collater([dataset[index] for index in part]) for part in parts]

    def score(self, batches: Sequence[Batch], paths: Paths = ()) -> Likelihood:
        """Compute the likelihood of blocks, averaged over paths of the tree if the model has adapters."""
        likelihood = Likelihood()
        pad, device = self.task.target_dictionary.pad(), next(self.model.parameters()).device
        weights = torch.from_numpy(self.tree.path_weights(paths)) if self.tree else None
        for batch in batches:
            tokens, target = batch["net_input"]["src_tokens"].to(device), batch["target"].to(device)
            routed = {} if weights is None else {"node_weights": weights.to(device).expand(len(tokens), -1)}
            with torch.inference_mode():
                logits, _ = self.model(tokens, **routed)
                likelihood.add(token_losses(logits, target)[target.ne(pad)])
        return likelihood


def score_contiguous(
    checkpoint: Path, data: Path, splits: Sequence[str], *, cpu: bool = False
) -> tuple[dict[str, Likelihood], int]:
    """Score sets of contiguous text, each from its beginning to its end, with a recurrent model.

    Returns:
        The likelihood of each set, and the number of trained parameters, without general-domain word vectors.
    """
    install()
    # With one row, all text but the very first has its preceding context.
    one_row = {"data": str(data), "batch_size": 1, "batch_size_valid": 1}
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], one_row)
    model.to(chosen_device(cpu)).eval()
    device = next(model.parameters()).device
    likelihoods = {split: Likelihood() for split in splits}
    for split, likelihood in likelihoods.items():
        segments = task.load_dataset(split)
        for index in tqdm(range(len(segments)), desc=split, unit="segment", disable=None):
            batch = utils.move_to_cuda(segments[index], device) if device.type == "cuda" else segments[index]
            with torch.inference_mode():
                logits, _ = model(**batch["net_input"])
                losses = token_losses(logits, batch["target"])
            likelihood.add(losses[batch["target"].ne(task.dictionary.pad())])
    return likelihoods, sum(parameter.numel() for parameter in model.parameters())


def token_losses(logits: Tensor, target: Tensor) -> Tensor:
    """Return ``−log softmax(logits)[target]`` in nats, including padding: B×T×V, B×T → B×T."""
    # Flattened, because a softmax over any dimension but the last is slow.
    return F.cross_entropy(logits.float().flatten(0, 1), target.flatten(), reduction="none").view_as(target)

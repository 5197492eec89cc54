"""Encode blocks of text, or score lines, with a language model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary, TokenBlockDataset, data_utils
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from fairseq_ext import install
from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.perplexity import token_losses
from fairseq_ext.models.base_layout import BASE_MODEL
from fairseq_ext.models.checkpoints import model_options
from fairseq_ext.models.states import base_states
from fairseq_ext.modules.autocast import chosen_device
from fairseq_ext.text.split import stable_hash
from fairseq_ext.text.subwords import DICT_FILE

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
        """Return the average state of each block: N×T token indices → N×H, float32."""
        size, pad = max(1, _BATCH_TOKENS // blocks.shape[1]), self.dictionary.pad()
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            states = [base_states(self.model, rows.to(device), pad).cpu() for rows in blocks.split(size)]
        return torch.cat(states).numpy()

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

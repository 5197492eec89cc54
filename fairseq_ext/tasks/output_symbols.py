"""Training over the output symbols that the text can need, ``--output-symbols text``."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.option import option
from fairseq_ext.modules.sampled_output import SampledOutput

ALL, TEXT = "all", "text"
# Options of the criterion that need the logits of all symbols.
_NEED_ALL = {"eps": "label-smoothing", "ignore_prefix_size": "ignore-prefix-size", "report_accuracy": "report-accuracy"}
_FEATURES_ONLY = "features_only"
# Symbols of the text that are always computed, and those drawn for each batch from its others and from all others.
_MOST_FREQUENT, _RARE, _OTHERS = 2000, 1000, 500
_log = logging.getLogger("fairseq_cli.train")


@dataclass
class OutputSymbolsConfig(FairseqDataclass):
    output_symbols: ChoiceEnum([ALL, TEXT]) = option(  # type: ignore[valid-type]
        ALL,
        "symbols of the loss in training: all of the vocabulary, or the text's 2,000 most frequent, those of the "
        "batch, and 1,500 others drawn for each batch, whose weights make the softmax that of the whole vocabulary in "
        "expectation (text), which is faster on a CPU; validation and decoding use all (default: all)",
    )


class OutputSymbols:
    """Mixin of translation tasks whose options include :class:`OutputSymbolsConfig`, for their training loss."""

    cfg: Any
    datasets: dict[str, Any]
    target_dictionary: Any
    _of_dataset: tuple[Any, SampledOutput] | None = None  # the training set and its symbols

    @property
    def reduces_output(self) -> bool:
        return str(self.cfg.output_symbols) == TEXT

    def build_criterion(self, cfg: Any, *args: Any) -> Any:
        """Build fairseq's criterion; its loss is then computed from features if the batch says so."""
        criterion = super().build_criterion(cfg, *args)  # type: ignore[misc]
        if self.reduces_output:
            _check(criterion)
            criterion.compute_loss = partial(self._compute_loss, criterion.compute_loss)
        return criterion

    def train_step(self, sample: dict, *args: Any, **options: Any) -> tuple[Any, Any, dict]:
        if self.reduces_output:
            sample = {**sample, "net_input": {**sample["net_input"], _FEATURES_ONLY: True}}
        return super().train_step(sample, *args, **options)  # type: ignore[misc]

    def _compute_loss(
        self, full_loss: Callable[..., Any], model: Any, net_output: Any, sample: dict, reduce: bool = True
    ) -> tuple[Tensor, Tensor]:
        if not sample["net_input"].get(_FEATURES_ONLY):
            return full_loss(model, net_output, sample, reduce=reduce)
        decoder, features, target = model.decoder, net_output[0], sample["target"]
        if decoder.adaptive_softmax is not None:
            raise InputError("--output-symbols text: cannot be used with an adaptive softmax; set all")
        is_token = target.ne(self.target_dictionary.pad())
        output = self._symbols(features.device)
        bias = getattr(decoder, "output_bias", None)
        loss = output.loss(features[is_token], decoder.output_projection.weight, bias, target[is_token])
        return loss, loss

    def _symbols(self, device: torch.device) -> SampledOutput:
        dataset = self.datasets[self.cfg.train_subset]
        if self._of_dataset is None or self._of_dataset[0] is not dataset:
            counts = symbol_counts(dataset, len(self.target_dictionary))
            _log.info(f"--output-symbols text: {int(counts.gt(0).sum()):,} of {len(counts):,} symbols are in the text")
            self._of_dataset = dataset, sampled_output(counts.to(device), self.target_dictionary.nspecial)
        return self._of_dataset[1]


def symbol_counts(dataset: Any, size: int) -> Tensor:
    """Return the count of each of V symbols in the targets of the corpora, V."""
    counts = torch.zeros(size, dtype=torch.long)
    for examples in (corpus.examples for corpus in dataset.corpora):
        if examples.supports_prefetch:
            examples.prefetch(range(len(examples)))
        for row in range(len(examples)):
            target = examples[row]["target"]
            counts.index_add_(0, target, torch.ones_like(target))
    return counts


def sampled_output(counts: Tensor, num_special: int) -> SampledOutput:
    """Return the output layer for symbols with these counts, of which the first are special."""
    counts = counts.clone()
    counts[:num_special] = counts.max() + 1
    order, in_text = counts.argsort(descending=True, stable=True), int(counts.gt(0).sum())
    most = min(_MOST_FREQUENT, in_text)
    return SampledOutput(order[:most], [(order[most:in_text], _RARE), (order[in_text:], _OTHERS)])


def _check(criterion: Any) -> None:
    if not isinstance(criterion, LabelSmoothedCrossEntropyCriterion):
        raise InputError("--output-symbols text: needs --criterion label_smoothed_cross_entropy or that of the gates")
    for attribute, name in _NEED_ALL.items():
        if getattr(criterion, attribute):
            raise InputError(f"--output-symbols text: cannot be used with --{name}; remove it, or set all")

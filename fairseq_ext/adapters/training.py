"""Train the adapter of a new domain, then fit the gates that select it."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sacrebleu
import torch
import torch.nn.functional as F
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf

from fairseq_ext.adapters.domains import NEAREST, NOTHING, add_domain
from fairseq_ext.adapters.new_text import (
    GUARDED,
    REFIT,
    TRAIN,
    VALID,
    Training,
    new_pairs,
    old_pairs,
    split_pairs,
    write_data,
)
from fairseq_ext.adapters.system import ADDED, GATED, PLAIN, State, System, refuse_existing
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import as_arguments, run_training
from fairseq_ext.base.processes import distributed_arguments
from fairseq_ext.modules.adapter_names import GUARDED as GUARDED_ENTRY
from fairseq_ext.serve.runtime.manifest import BASE
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.text.text_files import Pair

_BATCH_TOKENS = 4000
_OPTIONS = {
    "task": "multi_domain_translation",
    "optimizer": "adam",
    "num-workers": 0,
    "no-epoch-checkpoints": True,
    "no-last-checkpoints": True,
    "no-save-optimizer-state": True,
    # The loss with label smoothing may fall while the translation of held-out text becomes less likely.
    "best-checkpoint-metric": "nll_loss",
    "log-format": "simple",
    "log-interval": 100,
}
# Options that the training of the system's adapters decides: their places in its checkpoint, and what they are where
# the system was not trained, such as a base with attached adapters.
_AS_TRAINED: Mapping[str, tuple[str, str, Any]] = {
    "lr": ("optimization", "lr", 0.002),
    "clip-norm": ("optimization", "clip_norm", 0.0),
    "adam-betas": ("optimizer", "adam_betas", "(0.9, 0.98)"),
    "max-tokens": ("dataset", "max_tokens", 3000),
    "label-smoothing": ("criterion", "label_smoothing", 0.1),
    "output-symbols": ("task", "output_symbols", "all"),
}
_MOST_TOKENS = 3000  # in a batch
_PASSES, _FEWEST_UPDATES, _MOST_UPDATES = 6, 20, 320
_VALIDATIONS, _PATIENCE = 10, 3
_NEVER = 1_000_000
_ADAPTER: dict[str, Any] = {"criterion": "label_smoothed_cross_entropy", "lr-scheduler": "cosine"}
_GATES = {
    "criterion": "label_smoothed_cross_entropy_with_kd_gate",
    "lr-scheduler": "inverse_sqrt",
    "gate-target": "domain",
    "gate-loss-temperature": 1,
    "gate-loss-weight": 1,
    "gate-encoder-term": "token",
    "warmup-updates": 50,
}


@dataclass(frozen=True)
class Scores:
    """chrF of translations before and after training.

    Attributes:
        number: translations scored.
        is_held_out: whether the references are not in the training text.
    """

    before: float
    after: float
    number: int
    is_held_out: bool = True


def train_domain(model: Path, name: str, start: str, output: Path, training: Training) -> tuple[System, Scores]:
    """Write an exported system with a new domain, whose adapter is trained on the domain's text.

    With plain adapters, nothing else changes. With gated adapters, the new row of the gates is also fitted
    (``guarded``), or all rows are (``refit``); existing adapters do not change in either case.
    The adapter is initialised as in :func:`~fairseq_ext.adapters.domains.add_domain`, or from the ``nearest`` domain,
    whose adapter has the lowest validation loss on the new text.

    Returns:
        the system, and the scores of held-out pairs without and with the adapter. If they do not rise, the system that
        is written has an adapter that does nothing.
    """
    refuse_existing(output)
    system = System.read(model)
    system.require_adapters()
    if system.manifest is None:
        raise InputError(f"{model}: has no subwords to segment the text; to train a domain, give an exported system")
    if system.has_gates and training.old_text is None:
        raise InputError(
            "--old-text: not given; give a folder with text of the old domains, which a gated system needs"
        )
    is_guarded = system.has_gates and training.gates == GUARDED
    if not is_guarded and system.options.get("gate_base"):
        raise InputError(f"--gates {REFIT}: these gates may choose the base, and would forget it; use {GUARDED}")
    untrained = add_domain(system, name, NOTHING, guarded=is_guarded)
    output.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent.resolve()) as folder:
        bench = Bench(Path(folder), name, training)
        held_out = bench.write_data(system, untrained)
        start = bench.nearest(untrained) if start == NEAREST else start
        grown = bench.train_adapter(add_domain(system, name, start, guarded=is_guarded))
        if system.has_gates:
            grown = bench.fit_gates(grown)
            bench.report_gates(grown)
        grown.write(new := Path(folder) / "new")
        scores = Scores(score(model, BASE, held_out), score(new, name, held_out), len(held_out))
        if scores.after <= scores.before:
            idle = {key: value for key, value in untrained.model.items() if ".router." not in key}
            grown = _with_new_row(grown, name, idle)
            grown.write(new := Path(folder) / "idle")
        new.rename(output)
    return grown, scores


def score(model: Path, route: str, pairs: Sequence[Pair]) -> float:
    """Return the chrF of a system's translations by one route, with the pairs' targets as references."""
    translator = SystemTranslator.load(model)
    answers = translator.translate([Request(pair.source, route) for pair in pairs], with_gates=False)
    texts = [answer.candidates[0].text for answer in answers]
    return sacrebleu.corpus_chrf(texts, [[pair.target for pair in pairs]]).score


@dataclass(frozen=True)
class Bench:
    """A working folder in which a new domain is trained."""

    folder: Path
    name: str
    training: Training

    @property
    def data(self) -> Path:
        return self.folder / "data-bin"

    def write_data(self, system: System, grown: System) -> list[Pair]:
        """Segment and binarise the text, and return held-out pairs; plain adapters use only text of the new domain."""
        assert system.manifest is not None
        languages = system.manifest.languages
        assert self.training.text is not None
        texts = {self.name: new_pairs(self.training.text, languages)}
        if self.training.old_text is not None and system.has_gates:
            texts |= old_pairs(self.training.old_text, system.domains, languages, self.training)
        parts = {name: split_pairs(name, pairs, self.training) for name, pairs in texts.items()}
        self.write_pairs(system, grown, parts)
        return parts[self.name][VALID]

    def write_pairs(self, system: System, grown: System, texts: Mapping[str, Mapping[str, Sequence[Pair]]]) -> None:
        """Segment and binarise pairs for training and validation, by domain."""
        assert system.manifest is not None
        self.data.mkdir()
        write_data(self.data, system.path, system.manifest, grown.domains, texts)

    def nearest(self, grown: System) -> str:
        """Print all old domains' losses on the new validation set, in bits, and return the domain with the lowest.

        If no adapter has a lower loss than all of them, return ``nothing``.
        """
        losses = self.losses(grown, grown.names)
        losses[NOTHING] = losses.pop(self.name)  # a fresh adapter computes the identity
        for name, loss in sorted(losses.items(), key=lambda item: item[1]):
            what = "no adapter" if name == NOTHING else name
            print(f"{what}: validation loss {loss:.3f} on {self.name}", file=sys.stderr)
        return min(losses, key=losses.__getitem__)

    def losses(self, system: System, names: Sequence[str]) -> dict[str, float]:
        """Return the loss of the validation set with the adapter of each of these domains, in bits per token."""
        model, task = self._load(_as_plain(system))
        losses = dict.fromkeys(names, 0.0)
        tokens = 0
        with torch.no_grad():
            for batch in self._batches(task, self.name):
                tokens += batch["ntokens"]
                for name in names:
                    domain_ids = torch.full((len(batch["target"]),), system.names.index(name))
                    logits = model(**{**batch["net_input"], "domain_ids": domain_ids})[0]
                    losses[name] += float(
                        F.cross_entropy(
                            logits.flatten(0, 1),
                            batch["target"].flatten(),
                            ignore_index=task.tgt_dict.pad(),
                            reduction="sum",
                        )
                    )
        return {name: loss / tokens / math.log(2) for name, loss in losses.items()}

    def train_adapter(self, grown: System) -> System:
        """Train the domain's adapter, as a plain adapter, on sentences of its domain, and return the system.

        If the training does not lower the loss of the validation set, the adapter stays as it is.
        """
        most = self.training.max_update or self._updates(grown)
        every = max(1, most // _VALIDATIONS)
        options = {
            **_ADAPTER,
            "warmup-updates": max(1, most // 10),
            "max-update": most,
            "train-domains": self.name,
            **dict.fromkeys(("validate-interval", "save-interval"), _NEVER),
            **dict.fromkeys(("validate-interval-updates", "save-interval-updates"), every),
            "keep-interval-updates": 1,
            "patience": _PATIENCE,
        }
        trained = _with_new_row(grown, self.name, self._train("adapter", _as_plain(grown), options))
        before, after = (self.losses(each, [self.name])[self.name] for each in (grown, trained))
        return trained if after < before else grown

    def _updates(self, system: System) -> int:
        """Return the number of updates for the training text: some passes over it, within limits."""
        assert system.manifest is not None
        source, target = system.manifest.languages
        file = self.data / self.name / f"{TRAIN}.{source}-{target}.{target}"
        examples = data_utils.load_indexed_dataset(str(file), None)  # the sizes lie in its memory
        batches = math.ceil(int(examples.sizes.sum()) / as_trained(system)["max-tokens"])
        return min(_MOST_UPDATES, max(_FEWEST_UPDATES, _PASSES * batches))

    def fit_gates(self, grown: System) -> System:
        """Fit the new row of the gates, or all rows, on text of all domains, and return the system."""
        is_guarded = self.training.gates == GUARDED
        which = self.name if is_guarded else "all"
        options = {**_GATES, "max-update": self.training.gate_updates, "train-gates": which}
        trained = self._train("gates", grown, options)
        gates = {key: value for key, value in trained.items() if ".router." in key}
        return _with_new_row(grown, self.name, gates) if is_guarded else replace(grown, model={**grown.model, **gates})

    def report_gates(self, grown: System) -> None:
        """Print, for each domain, the share of held-out sentences that use the new adapter, and its mean weight."""
        model, task = self._load(grown)
        row = grown.names.index(self.name)
        for name in grown.names:
            inputs = [batch["net_input"] for batch in self._batches(task, name)]
            sides = [model.gate_weights(given, given["prev_output_tokens"]) for given in inputs]
            layers = [torch.cat([found["encoder"], found["decoder"]], dim=1) for found in sides]
            weights = torch.cat(layers)[..., row]  # N×L
            share = float(weights.gt(0).any(1).float().mean())
            print(
                f"{name}: {self.name} is used in {share:.1%} of {len(weights)} held-out sentences, mean weight "
                f"{float(weights.mean()):.3f}",
                file=sys.stderr,
            )

    def _train(self, what: str, system: System, options: Mapping[str, Any]) -> State:
        """Train a system, and return the weights with the lowest validation loss."""
        assert system.manifest is not None
        start, folder = self.folder / f"{what}.pt", self.folder / what
        system.write_checkpoint(start)
        languages = dict(zip(("source-lang", "target-lang"), system.manifest.languages, strict=True))
        files = {"save-dir": folder, "finetune-from-model": start, "seed": self.training.seed, **languages}
        words = [*as_arguments({**_OPTIONS, **as_trained(system), **options, **files}), *self.training.extra]
        arguments = [str(self.data), *model_arguments(system), *words, *distributed_arguments(words)]
        run_training(what, arguments, self.folder / f"{what}.log")
        return System.read(folder / "checkpoint_best.pt").model

    def _load(self, system: System) -> tuple[Any, Any]:
        path = self.folder / "loaded.pt"
        system.write_checkpoint(path)
        assert system.manifest is not None
        source, target = system.manifest.languages
        overrides = {"data": str(self.data), "source_lang": source, "target_lang": target, "teacher_dir": ""}
        models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides=overrides)
        return models[0].eval(), task

    def _batches(self, task: Any, name: str) -> Iterator[dict[str, Any]]:
        split = f"{VALID}:{name}"
        task.load_dataset(split)
        batches = task.get_batch_iterator(task.datasets[split], max_tokens=_BATCH_TOKENS, disable_iterator_cache=True)
        yield from batches.next_epoch_itr(shuffle=False)


def as_trained(system: System) -> dict[str, Any]:
    """Return options of fairseq-train with the values with which the system's adapters were trained.

    If Adam did not train them, or the checkpoint does not say it, the values are usual ones for small models.
    """
    config: Any = OmegaConf.to_container(OmegaConf.create(system.checkpoint["cfg"]), resolve=True)
    is_adams = (config.get("optimizer") or {}).get("_name") == "adam"
    is_trained = is_adams and system.checkpoint["optimizer_history"][-1]["num_updates"] > 0
    options = {}
    for option, (section, name, usual) in _AS_TRAINED.items():
        value = (config.get(section) or {}).get(name) if is_trained else None
        options[option] = usual if value is None else value
    if not is_trained and not system.options.get("dropout"):
        options["label-smoothing"] = 0.0  # a student is too certain for it
    return {**options, "adam-betas": str(options["adam-betas"]), "max-tokens": min(options["max-tokens"], _MOST_TOKENS)}


def model_arguments(system: System) -> list[str]:
    """Return the options with which fairseq-train builds a model like the system's."""
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    ARCH_MODEL_REGISTRY[system.kind].add_args(parser)
    flags = {action.dest: action.option_strings[-1].removeprefix("--") for action in parser._actions}
    arguments = {flag: system.options.get(dest) for dest, flag in flags.items()}
    return as_arguments({"arch": system.kind, **{flag: value for flag, value in arguments.items() if value != ""}})


def _as_plain(system: System) -> System:
    """Return the system with its adapters but without gates; the domain selects the adapter."""
    if not system.has_gates:
        return system
    dropped = set(ADDED[GATED]) - set(ADDED[PLAIN]) | {"train_gates"}
    options = {key: value for key, value in system.options.items() if key not in dropped}
    options |= {key: PLAIN for key in ("arch", "_name") if key in options}
    model = {key: value for key, value in system.model.items() if ".router." not in key and key != GUARDED_ENTRY}
    return replace(system, options=options, model=model)


def _with_new_row(system: System, name: str, trained: Mapping[str, torch.Tensor]) -> System:
    """Return the system with one adapter's rows replaced; all other values are unchanged."""
    row = system.names.index(name)
    model = dict(system.model)
    for key, value in trained.items():
        if system.is_row(key):
            model[key] = model[key].clone()
            model[key][row] = value[row].to(model[key].dtype)
    return replace(system, model=model)

"""Every architecture at toy size, each with its plain base, an input, and what it adds: the tests of all are one."""

import copy
import re
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from torch import Tensor

from tests import toy, toy_stream, toy_tasks, toy_text

BANK = frozenset({"norm_weight", "norm_bias", "down_weight", "down_bias", "up_weight", "up_bias"})
NORMS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "ssru": {"autoregressive_layer": "ssru", "layer_norm_epsilon": 1e-6, "zero_start": True},
}


@dataclass(frozen=True)
class Subject:
    """An architecture under test.

    Attributes:
        make: a fresh model in evaluation mode, from a seed and changed options.
        inputs: rows of a batch, named as the model takes them; padded with 1 behind each row of ``tokens``.
        tokens: the inputs that hold tokens which may be followed by padding.
        run: scores of a model for inputs, B×T×V or B×C.
        trained: what it trains, by its state dict.
        stored: what its state dict has besides, and its base has not.
        start: as ``make``, but such that it starts exactly where its base is.
        base: a plain model of the same size; none if there is no such thing.
        run_base: scores of the base for the inputs, and for what a model puts on top of it.
    """

    make: Callable[..., Any]
    inputs: dict[str, Tensor]
    tokens: tuple[str, ...]
    run: Callable[[Any, dict[str, Tensor]], Tensor]
    trained: frozenset[str]
    stored: frozenset[str] = frozenset()
    start: Callable[..., Any] | None = None
    base: Callable[[], Any] | None = None
    run_base: Callable[[Any, Any], Tensor] | None = None

    def randomised(self, seed: int = 5) -> Any:
        """A model whose own parameters have been somewhere."""
        model = self.make()
        torch.manual_seed(seed)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if stored_name(name) in self.trained:
                    parameter.normal_(std=0.4)
        return model

    def rows(self, *rows: int) -> dict[str, Tensor]:
        """Some rows of the inputs."""
        return {name: value[list(rows)] for name, value in self.inputs.items()}


def stored_name(name: str) -> str:
    """The entry of the state dict that a parameter is in; a tree's nodes are rows of one."""
    return re.sub(r"[.]nodes[.](\w+)[.]\d+$", r".\1", name)


def tokens_of(symbols: int, rows: int = 4, length: int = 6) -> Tensor:
    return torch.randint(4, symbols, (rows, length), generator=torch.Generator().manual_seed(3))


def log_probs(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    scores: Tensor = model.get_normalized_probs(model(**inputs), log_probs=True)
    return scores


def translator(root: Path, arch: str, norm: str, **options: Any) -> Subject:
    task, args = toy.make_task(toy.make_data(root), arch=arch)
    toy.make_model(task, args)  # and the task knows whether batches tell it the domains
    task.load_dataset("test")
    inputs = toy.first_batch(task, "test", max_sentences=12)["net_input"]
    plain = {name: value for name, value in inputs.items() if name != "domain_ids"}

    def make(seed: int = 1, **changes: Any) -> Any:
        return toy.make_model(task, Namespace(**vars(args) | NORMS[norm] | options | changes), seed)

    def base() -> Any:
        given = Namespace(**{name: value for name, value in vars(args).items() if name != "adapter_names"})
        for name, value in NORMS[norm].items():
            setattr(given, name, value)
        torch.manual_seed(3)
        return ARCH_MODEL_REGISTRY["transformer_tiny"].build_model(given, task).eval()

    reads = str(options.get("gate_inputs", "states" if "gated" in arch else ""))
    layers = {f"{side}.layers.{n}" for side in ("encoder", "decoder") for n in (0, 1)}
    banks = {f"{layer}.adapter.bank.{name}" for layer in layers for name in BANK}
    if options.get("adapter_form") == "lora":
        places = {f"{layer}.self_attn.{name}_proj" for layer in layers for name in "qv"}
        places |= {f"{layer}.encoder_attn.q_proj" for layer in layers if layer.startswith("decoder")}
        banks = {f"{place}.adapter.bank.{name}" for place in places for name in ("down_weight", "up_weight")}
    trained = banks | ({f"{layer}.adapter.router.weight" for layer in layers} if "states" in reads else set())
    trained |= {"encoder.adapter.router.weight"} if "source" in reads else set()
    if options.get("gate_base"):
        trained |= {name.replace("router.weight", "router.base_weight") for name in trained if "router" in name}
    return Subject(
        make=make,
        inputs=inputs,
        tokens=("prev_output_tokens",),
        run=log_probs,
        trained=frozenset(trained),
        stored=frozenset({"decoder.adapter_names"}),
        start=make,
        base=base,
        run_base=lambda base, _: log_probs(base, plain),
    )


def language_model(
    root: Path, trained: set[str], stored: set[str], *words: str, arch: str, **inputs: Tensor
) -> Subject:
    """One on fairseq's decoder; the other inputs are what it is told beside the tokens."""
    text = toy_text.make_text(root)
    task, options = toy_text.make_task(text, *words, arch=arch)
    plain_task, plain_options = toy_text.make_task(text, arch=toy_text.PLAIN)
    inputs = {"src_tokens": tokens_of(len(task.dictionary)), **inputs}

    def make(seed: int = 1, **changes: Any) -> Any:
        given = copy.deepcopy(options)
        for name, value in changes.items():
            given[name] = value
        return toy.make_model(task, given, seed)

    return Subject(
        make=make,
        inputs=inputs,
        tokens=("src_tokens",),
        run=log_probs,
        trained=frozenset(trained),
        stored=frozenset(stored),
        start=make,
        base=lambda: toy.make_model(plain_task, copy.deepcopy(plain_options), seed=3),
        run_base=lambda base, _: log_probs(base, {"src_tokens": inputs["src_tokens"]}),
    )


def path_model(root: Path) -> Subject:
    tree = toy_text.write_tree(root / "tree.json")
    weights = torch.tensor([[0.25, 0.25, 0.25, 0.25, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0.5, 0, 0, 0, 0.5]])
    banks = {f"decoder.layers.{n}.adapter.bank.{name}" for n in (0, 1) for name in BANK}
    return language_model(
        root, banks, {"decoder.adapter_names"}, "--tree", str(tree), arch=toy_text.HIER, node_weights=weights
    )


def topic_model(root: Path) -> Subject:
    steering = {"norm.weight", "norm.bias", "embeddings", "transformation.matrix", "transformation.offset"}
    trained = {f"decoder.topics.steering.{name}" for name in steering} | {"decoder.topics.output_weight"}
    return language_model(root, trained, set(), arch="transformer_lm_topic_tiny")


def classifier(norm: str) -> Subject:
    changes_of_norm = {"encoder_normalize_before": True} if NORMS[norm] else {}
    head = {f"classification_heads.sst2.{part}.{kind}" for part in ("dense", "out_proj") for kind in ("weight", "bias")}
    norms = {f"tasks.sst2.norms.{n}.{kind}" for n in range(5 + len(changes_of_norm)) for kind in ("weight", "bias")}
    matrices = {f"{n}.{side}.{kind}" for n in range(4) for side in ("down", "up") for kind in ("weight", "bias")}

    def make(seed: int = 1, **changes: Any) -> Any:
        return toy_tasks.make_model(seed=seed, **changes_of_norm, **changes)

    def features(model: Any) -> Tensor:
        found: Tensor = model(toy_tasks.tokens_of(), features_only=True)[0]
        return found

    return Subject(
        make=make,
        inputs={"src_tokens": toy_tasks.tokens_of()},
        tokens=("src_tokens",),
        run=lambda model, inputs: model(**inputs, features_only=True, classification_head_name="sst2")[0],
        trained=frozenset(head | norms | {f"tasks.sst2.adapters.{name}" for name in matrices}),
        stored=frozenset({"tasks.sst2.description"}),
        start=lambda seed=1: make(seed, adapter_init_scale=0),
        base=lambda: toy_tasks.make_base(**changes_of_norm),
        run_base=lambda base, model: model.classification_heads["sst2"](features(base)),
    )


def recurrent_model(root: Path) -> Subject:
    """With all its gates; it has no base."""
    vectors = toy_stream.write_vectors(root / "v.txt")
    task, options = toy_stream.make_task(toy_stream.make_stream(root), "--word-vectors", str(vectors))
    gru = {"input.weight", "input.bias", "gates.weight", "candidate.weight"}
    gate = {"given.weight", "given.bias", "context.weight"}
    trained = {"output.weight", "output.bias", "embed.weight"}
    trained |= {f"gru.gru.gru.{name}" for name in gru} | {f"gru.general_gru.{name}" for name in gru}
    trained |= {f"gru.gru.{which}_gate.{name}" for which in ("word", "context") for name in gate}
    return Subject(
        make=lambda seed=1: toy.make_model(task, copy.deepcopy(options), seed),
        inputs={"src_tokens": tokens_of(20)},
        tokens=("src_tokens",),
        run=log_probs,
        trained=frozenset(f"decoder.{name}" for name in trained),
    )


AD, GAD = "transformer_domain_adapter_tiny", "transformer_gated_adapter_tiny"
TRANSLATORS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "AD": (AD, "post-norm", {}),
    "AD-pre-norm": (AD, "pre-norm", {}),
    "GAD": (GAD, "post-norm", {}),
    "GAD-pre-norm": (GAD, "pre-norm", {}),
    "GAD-source": (GAD, "post-norm", {"gate_inputs": "source", "gate_pairs": 64}),
    "GAD-all-inputs": (GAD, "pre-norm", {"gate_inputs": "states,source,encoder", "gate_pairs": 64}),
    "GAD-base": (GAD, "post-norm", {"gate_inputs": "states,source", "gate_pairs": 64, "gate_base": True}),
    "AD-lora": (AD, "post-norm", {"adapter_form": "lora"}),
    "GAD-lora-pre-norm": (GAD, "pre-norm", {"adapter_form": "lora"}),
    "AD-ssru": (AD, "ssru", {}),
    "GAD-ssru": (GAD, "ssru", {}),
}
SUBJECTS: dict[str, Callable[[Path], Subject]] = {
    **{name: partial(translator, arch=arch, norm=norm, **own) for name, (arch, norm, own) in TRANSLATORS.items()},
    "paths": path_model,
    "topics": topic_model,
    "houlsby": lambda _: classifier("post-norm"),
    "houlsby-pre-norm": lambda _: classifier("pre-norm"),
    "dagru": recurrent_model,
}

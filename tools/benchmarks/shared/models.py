"""Translation models with random weights, and sentences for them."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from benchmarks.shared.cases import MissingError

ARCHS = {"MIX": "transformer", "AD": "transformer_domain_adapter", "GAD": "transformer_gated_adapter"}
SIZES = ("paper", "small", "tiny")
EOS = 2


def make_dictionary(size: int) -> Any:
    """Return a dictionary of a given size."""
    from fairseq.data import Dictionary

    dictionary = Dictionary()
    for i in range(size - len(dictionary)):
        dictionary.add_symbol(f"w{i}")
    return dictionary


def domain_names(number: int) -> list[str]:
    """Return a given number of domain names, in order."""
    return [f"domain{i:02}" for i in range(number)]


def make_model(
    system: str, size: str, vocabulary: int, num_domains: int, options: Mapping[str, Any] | None = None
) -> Any:
    """Return a random model of a preset, with tied embeddings.

    Args:
        system: one of ARCHS.
        size: one of SIZES; the paper's is 6+6 layers of width 512.
        vocabulary: vocabulary size.
        num_domains: number of domains D.
        options: options of the adapters, such as ``{"gate_top_k": 2}``.

    Raises:
        MissingError: if the code does not support an option.
    """
    import torch
    from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

    import fairseq_ext

    fairseq_ext.install()
    torch.manual_seed(1)
    arch = ARCHS[system] + ("" if size == "paper" else f"_{size}")
    model_class = ARCH_MODEL_REGISTRY[arch]
    known = {item.name for item in fields(model_class.config_class)} if system != "MIX" else set()
    if absent := sorted(set(options or {}) - known):
        raise MissingError(f"{arch} has no option {absent[0]}")
    dictionary = make_dictionary(vocabulary)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary, domains=domain_names(num_domains))
    args = Namespace(arch=arch, share_all_embeddings=True, dropout=0.1, **(options or {}))
    ARCH_CONFIG_REGISTRY[arch](args)
    return model_class.build_model(args, task)


def make_input(
    sentences: int, tokens: int, vocabulary: int, domain_ids: Any = None, device: str = "cpu"
) -> dict[str, Any]:
    """Return random sentences of equal length as inputs of a model's forward pass.

    Args:
        sentences: number of sentences B.
        tokens: length T of each sentence.
        vocabulary: vocabulary size.
        domain_ids: B domain IDs for plain adapters; None for other systems.
        device: device of the tensors.
    """
    import torch

    torch.manual_seed(2)
    source = torch.randint(4, vocabulary, (sentences, tokens))
    source[:, -1] = EOS
    net_input = {"src_tokens": source.to(device), "src_lengths": torch.full((sentences,), tokens, device=device)}
    if domain_ids is not None:
        net_input["domain_ids"] = torch.tensor(domain_ids, device=device)
    return net_input


def generation(model: Any, net_input: Mapping[str, Any], beam: int, tokens: int) -> Callable[[], dict[str, float]]:
    """Return a function that searches for translations of exactly ``tokens`` tokens."""
    import torch
    from fairseq.sequence_generator import SequenceGenerator

    model.eval().make_generation_fast_()
    # The end of sentence is counted in addition.
    search = SequenceGenerator(
        [model], model.decoder.dictionary, beam_size=beam, min_len=tokens - 1, max_len_b=tokens - 1
    )
    device = net_input["src_tokens"].device

    def run() -> dict[str, float]:
        with torch.no_grad():
            search.generate([], {"net_input": dict(net_input)})
        return finish(device)

    return run


def finish(device: Any) -> dict[str, float]:
    """Wait for a GPU's pending work, and return the peak memory since the last call."""
    import torch

    if torch.device(device).type != "cuda":
        return {}
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() / 2**20
    torch.cuda.reset_peak_memory_stats()
    return {"peak": peak}


def operator_facts(model: Any, net_input: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers of kernels and of synchronising operators in a forward pass and in a decoding step.

    On a GPU, also return how often torch reports that the host waited in that step.
    """
    import torch
    from fairseq.sequence_generator import EnsembleModel

    from benchmarks.shared.operators import count_operators

    tokens = net_input["src_tokens"][:, :4]
    search = EnsembleModel([model])

    def forward() -> None:
        model(**net_input, prev_output_tokens=tokens)

    with torch.no_grad():
        forward()
        whole = count_operators(forward)
        states: list[dict] = [{}]
        encoded = search.forward_encoder(dict(net_input))
        for length in (1, 2):
            search.forward_decoder(tokens[:, :length], encoded, states)
        step = count_operators(lambda: search.forward_decoder(tokens[:, :3], encoded, states))
        host_waits = _host_waits(lambda: search.forward_decoder(tokens, encoded, states), tokens.device.type)
    return {
        "kernels, forward": whole.kernels.total(),
        "waits, forward": whole.waits.total(),
        "kernels, step": step.kernels.total(),
        "waits, step": step.waits.total(),
        **host_waits,
    }


def _host_waits(run: Callable[[], Any], device: str) -> dict[str, int]:
    """Return how often torch reports that the host waits for a GPU; an empty dictionary on other devices."""
    import torch

    if device != "cuda":
        return {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            run()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return {"host waits, step": sum("synchroniz" in str(each.message) for each in said)}

"""All models in other precisions: moved as a whole, near the full-precision result, under autocast, in decoding."""

from __future__ import annotations

import copy
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import data_utils
from torch import Tensor, nn

from tests import toy, toy_stream, toy_tasks, toy_text

HALF = [torch.float16, torch.bfloat16]
ARCHS = ["transformer_domain_adapter_tiny", "transformer_gated_adapter_tiny"]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

Run = Callable[[Any], Tensor]  # a model's output for some input


def translator(folder: Path, arch: str) -> tuple[Any, Run]:
    task, args = toy.make_task(toy.make_data(folder), arch=arch)
    model = toy.make_model(task, args)
    net_input = toy.first_batch(task)["net_input"]
    return model, lambda model: model(**net_input)[0]


def path_model(folder: Path) -> tuple[Any, Run]:
    tree = toy_text.write_tree(folder / "tree.json")
    task, cfg = toy_text.make_task(toy_text.make_text(folder), "--tree", str(tree))
    model = toy.make_model(task, cfg)
    weights = torch.stack([torch.from_numpy(model.tree.path_weights([name])) for name in ("law", "sub")])
    return model, lambda model: model(tokens(len(task.dictionary)), node_weights=weights)[0]


def topic_model(folder: Path) -> tuple[Any, Run]:
    task, cfg = toy_text.make_task(toy_text.make_text(folder), arch="transformer_lm_topic_tiny")
    return toy.make_model(task, cfg), lambda model: model(tokens(len(task.dictionary)))[0]


def classifier(_: Path) -> tuple[Any, Run]:
    model = toy_tasks.make_model(adapter_init_scale=0)
    return model, lambda model: model(tokens(20), features_only=True, classification_head_name="sst2")[0]


def recurrent_model(folder: Path) -> tuple[Any, Run]:
    vectors = toy_stream.write_vectors(folder / "v.txt")
    task, cfg = toy_stream.make_task(toy_stream.make_stream(folder / "stream"), "--word-vectors", str(vectors))
    return toy.make_model(task, cfg), lambda model: model(tokens(20))[0]


MODELS: dict[str, Callable[[Path], tuple[Any, Run]]] = {
    "AD": lambda folder: translator(folder, ARCHS[0]),
    "GAD": lambda folder: translator(folder, ARCHS[1]),
    "paths": path_model,
    "topics": topic_model,
    "houlsby": classifier,
    "dagru": recurrent_model,
}


def tokens(symbols: int) -> Tensor:
    return torch.randint(4, symbols, (2, 6), generator=torch.Generator().manual_seed(3))


@pytest.fixture(params=MODELS)
def prepared(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Run]:
    """A model that fairseq has prepared for decoding, as its hub does before a user can move it."""
    model, run = MODELS[request.param](tmp_path)
    toy.randomise_adapters(model)
    model.make_generation_fast_()
    return model, run


@pytest.mark.parametrize("dtype", [*HALF, torch.float64])
def test_a_model_moves_as_a_whole(prepared: tuple[Any, Run], dtype: torch.dtype) -> None:
    model, run = prepared
    with torch.no_grad():
        full, moved = run(model), run(model.to(dtype))
    assert {value.dtype for value in model.parameters()} == {dtype}
    # Half precision keeps two to three decimals; logits of random weights are of the order of ten.
    torch.testing.assert_close(moved.float(), full, atol=0.05 * float(full.abs().max()), rtol=0.1)


def test_nothing_stays_behind(prepared: tuple[Any, Run]) -> None:
    """On another device, as after ``cuda()``; but for what fairseq itself moves when it is used."""
    model, run = prepared
    with torch.no_grad():
        run(model)
    model.to("meta")
    for name, module in model.named_modules():
        own = {key: value for key, value in vars(module).items() if key not in ("_future_mask", "weights")}
        assert all(value.is_meta for value in tensors_in(own)), name


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in nested containers."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(inner)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", ["AD", "GAD", "paths"])
def test_fresh_adapters_change_nothing_under_autocast(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """As in training with --amp: exactly what the layers compute without them."""
    model, run = MODELS[name](tmp_path)
    bare = copy.deepcopy(model)
    for layer in [module for module in bare.modules() if hasattr(module, "adapter")]:
        layer.adapter.forward = nn.Identity()
    with torch.no_grad(), torch.autocast("cpu", dtype):
        adapted, alone = run(model), run(bare)
    assert torch.equal(adapted, alone)


@pytest.mark.parametrize("dtype", HALF)
def test_a_fresh_task_changes_nothing_under_autocast(dtype: torch.dtype) -> None:
    model, run = classifier(Path())
    with torch.no_grad(), torch.autocast("cpu", dtype):
        with_adapters = run(model)
        with model.without_adapters(range(2)):
            assert torch.equal(run(model), with_adapters)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("arch", [*ARCHS, "transformer_tiny"])
def test_decoding_is_as_near_as_that_of_a_plain_transformer(data: Path, arch: str, dtype: torch.dtype) -> None:
    """Of what a half-precision model writes, full precision thinks nearly the same."""
    task, args = toy.make_task(data, arch=arch)
    model = toy.make_model(task, args)
    if arch in ARCHS:
        toy.randomise_adapters(model)
    half = copy.deepcopy(model)
    half.make_generation_fast_()
    half.to(dtype)
    batch = toy.first_batch(task)
    generator = task.build_generator([half], Namespace(beam=2, max_len_b=8))
    hypotheses = [row[0] for row in task.inference_step(generator, [half], batch)]
    dictionary = task.target_dictionary
    forced_input = data_utils.collate_tokens(
        [h["tokens"] for h in hypotheses], dictionary.pad(), dictionary.eos(), move_eos_to_beginning=True
    )
    with torch.no_grad():
        out = model(**batch["net_input"] | {"prev_output_tokens": forced_input})
    full = model.get_normalized_probs(out, log_probs=True)
    for row, hypothesis in enumerate(hypotheses):
        written = hypothesis["tokens"]
        scores = full[row, : len(written)].gather(1, written.unsqueeze(1)).squeeze(1)
        tolerance = 0.05 if dtype == torch.float16 else 0.5
        torch.testing.assert_close(hypothesis["positional_scores"].float(), scores, atol=tolerance, rtol=0.05)


@pytest.mark.parametrize(
    ("device", "dtype"),
    [("cpu", torch.bfloat16), *(pytest.param("cuda", d, marks=[pytest.mark.gpu, needs_gpu]) for d in HALF)],
)
def test_gates_are_in_full_precision(data: Path, device: str, dtype: torch.dtype) -> None:
    task, args = toy.make_task(data)
    model = toy.make_model(task, args).to(device)
    toy.randomise_adapters(model)
    net_input = {name: value.to(device) for name, value in toy.first_batch(task)["net_input"].items()}
    with torch.no_grad():
        full, _ = model(**net_input)
        half, extra = model.to(dtype)(**net_input)
    assert all(gate.dtype == torch.float32 for side in extra["gate_logits"].values() for gate in side)
    torch.testing.assert_close(half.float(), full, atol=0.05 * float(full.abs().max()), rtol=0.1)

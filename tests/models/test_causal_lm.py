"""Causal language models of Hugging Face in fairseq: transformers' own scores, a cache, adapters, small checkpoints."""

import copy
import json
import math
import os
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.models.causal_lm import CausalLMConfig, order_of
from fairseq_ext.models.transformer_lm_hier_adapter import HierAdapterConfig
from fairseq_ext.models.transformer_lm_topic import TopicConfig
from fairseq_ext.modules.causal_models import tokenizer_of
from fairseq_ext.text.model_tokenizer import ModelTokenizer
from tests.models.tiny_causal import KINDS, TEXT, make_causal

ARCHS: dict[str, Any] = {
    "causal_lm": CausalLMConfig,
    "transformer_lm_hier_adapter": HierAdapterConfig,
    "transformer_lm_topic": TopicConfig,
}
TOLERANCE = 1e-5
Bases = dict[str, tuple[Path, Any]]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Bases:
    """Folders of models, and the models."""
    folder = tmp_path_factory.mktemp("bases")
    found = {kind: (folder / kind, make_causal(folder / kind, kind)) for kind in KINDS}
    return found | {"padded": (folder / "padded", make_causal(folder / "padded", "llama", more_tokens=5))}


def dictionary_of(path: Path, config: Any, folder: Path) -> tuple[Dictionary, list[int]]:
    """The dictionary of a data directory, and the model's ids of its symbols."""
    tokenizer = ModelTokenizer(tokenizer_of(path), path)
    order = order_of(tokenizer, config)
    tokenizer.write(folder, order)
    return Dictionary.load(str(folder / "dict.txt")), order


def build(path: Path, dictionary: Dictionary, arch: str = "causal_lm", **options: Any) -> Any:
    """A model as fairseq builds it, in evaluation mode."""
    cfg = ARCHS[arch](base_model=str(path), **options)
    torch.manual_seed(3)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary, domains=["law", "med"])
    return ARCH_MODEL_REGISTRY[arch].build_model(cfg, task).eval()


def randomised(model: Any) -> Any:
    """A model whose trained parameters have been somewhere."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_(std=0.4)
    return model


def rows_of(dictionary: Dictionary, length: int = 9) -> Tensor:
    """Two texts, which begin with a line break; the second has another."""
    rows = torch.randint(4, len(dictionary), (2, length), generator=torch.Generator().manual_seed(1))
    rows[:, 0] = rows[1, 5] = dictionary.eos()
    return rows


HIER = {"adapters": "single", "bottleneck_dim": 4}
OPTIONS: dict[str, dict[str, Any]] = {
    "causal_lm": {},
    "transformer_lm_hier_adapter": HIER,
    "transformer_lm_topic": {"num_topics": 2, "mixture": "logits"},
}


def inputs_of(arch: str) -> dict[str, Tensor]:
    return {"node_weights": torch.eye(2)} if "hier" in arch else {}


def are_close(ours: Tensor, expected: Tensor) -> bool:
    """Whether scores are the same, except for rounding."""
    return bool((ours - expected).abs().max() <= TOLERANCE * expected.abs().max().clamp(min=1))


@torch.no_grad()
@pytest.mark.parametrize("kind", [*KINDS, "padded"])
def test_scores_are_those_of_transformers(bases: Bases, tmp_path: Path, kind: str) -> None:
    path, theirs = bases[kind]
    dictionary, order = dictionary_of(path, theirs.config, tmp_path)
    assert sorted(order) == list(range(theirs.config.vocab_size))
    rows, model = rows_of(dictionary), build(path, dictionary)
    expected = theirs(torch.tensor(order)[rows]).logits[..., order]
    assert expected.std() > 0.3
    assert are_close(model(rows)[0], expected)
    assert not model.state_dict()
    # Padding behind a text changes nothing.
    padded = torch.cat([rows, torch.full((2, 3), dictionary.pad())], 1)
    assert are_close(model(padded)[0][:, : rows.size(1)], expected)


@torch.no_grad()
def test_lines_that_fairseq_joins_are_the_models_lines(bases: Bases, tmp_path: Path) -> None:
    path, theirs = bases["llama"]
    dictionary, order = dictionary_of(path, theirs.config, tmp_path)
    lines = ["The old tree", "12.5 % in 2024.", "猫"]
    ours = [
        dictionary.encode_line(ids, append_eos=True) for ids in ModelTokenizer(tokenizer_of(path), path).encode(lines)
    ]
    expected = Tokenizer.from_file(str(path / "tokenizer.json")).encode("".join(f"{line}\n" for line in lines)).ids
    assert torch.tensor(order)[torch.cat(ours).long()].tolist() == expected


@torch.no_grad()
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", KINDS)
def test_fresh_additions_leave_the_base_bit_for_bit(bases: Bases, tmp_path: Path, kind: str, arch: str) -> None:
    path, theirs = bases[kind]
    dictionary, _ = dictionary_of(path, theirs.config, tmp_path)
    rows = rows_of(dictionary)
    # In bfloat16, transformers' Mamba does not run on a CPU.
    for precision in ("float32", "bfloat16")[: 1 if kind == "mamba" else 2]:
        given: dict[str, Any] = {"base_precision": precision}
        topics = {"num_topics": 0} if "topic" in arch else {}
        base, model = build(path, dictionary, **given), build(path, dictionary, arch, **OPTIONS[arch] | topics | given)
        ours, expected = (each(rows, **more)[0] for each, more in ((model, inputs_of(arch)), (base, {})))
        if "topic" in arch and precision == "bfloat16":  # the output layer of topics is in float32
            assert (ours - expected).abs().max() < 0.1
        else:
            assert torch.equal(ours, expected)


@torch.no_grad()
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_cache_gives_the_scores_of_the_whole_text(bases: Bases, tmp_path: Path, kind: str, arch: str) -> None:
    """Also after the rows of a beam are reordered, and one is dropped."""
    path, theirs = bases[kind]
    dictionary, _ = dictionary_of(path, theirs.config, tmp_path)
    model, rows = randomised(build(path, dictionary, arch, **OPTIONS[arch])), rows_of(dictionary)
    more = inputs_of(arch)
    state: dict = {}
    steps = [model(rows[:, : n + 1], incremental_state=state, **more)[0][:, -1] for n in range(5)]
    whole = model(rows, **more)[0]
    assert are_close(torch.stack(steps, 1), whole[:, :5])
    at_once: dict = {}
    parts = [model(rows[:, :end], incremental_state=at_once, **more)[0] for end in (3, 5)]
    assert are_close(torch.cat(parts, 1), whole[:, :5])
    order = torch.tensor([1])
    model.decoder.reorder_incremental_state_scripting(state, order)
    rest = model(rows[order, :6], incremental_state=state, **{name: value[order] for name, value in more.items()})[0]
    assert are_close(rest[:, -1], whole[order, 5])


@pytest.mark.parametrize(("layers", "first"), [(0, 0), (1, 2)])
def test_only_adapters_are_trained_and_nothing_below_them(
    bases: Bases, tmp_path: Path, layers: int, first: int
) -> None:
    path, theirs = bases["llama"]
    dictionary, _ = dictionary_of(path, theirs.config, tmp_path)
    model = build(path, dictionary, "transformer_lm_hier_adapter", adapted_layers=layers, **HIER).train()
    blocks = list(model.decoder.layers)
    assert [hasattr(block, "adapter") for block in blocks] == [number >= first for number in range(3)]
    needs_grad = {}
    for number, block in enumerate(blocks):
        block.self_attn.register_forward_hook(
            lambda _module, _args, out, number=number: needs_grad.update({number: out[0].requires_grad})
        )
    before = {name: value.clone() for name, value in model.named_parameters()}
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(rows_of(dictionary), **inputs_of("hier"))[0].float().logsumexp(-1).sum().backward()
        optimizer.step()
    assert needs_grad == {number: number > first for number in range(3)}
    for name, value in model.named_parameters():
        assert torch.equal(value, before[name]) == (".adapter." not in name or "shared_norm" in name), name


@torch.no_grad()
@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("causal_lm", {"train_blocks": 1}),
        ("transformer_lm_hier_adapter", HIER),
        ("transformer_lm_topic", {"num_topics": 2}),
    ],
)
def test_checkpoints_have_only_what_is_trained(
    bases: Bases, tmp_path: Path, arch: str, options: dict[str, Any]
) -> None:
    path, theirs = bases["qwen2"]
    dictionary, _ = dictionary_of(path, theirs.config, tmp_path)
    model, rows, more = build(path, dictionary, arch, **options), rows_of(dictionary), inputs_of(arch)
    start = model(rows, **more)[0]
    fresh = build(path, dictionary, arch, **options)
    fresh.load_state_dict({})  # the checkpoint of a base
    assert torch.equal(fresh(rows, **more)[0], start) or arch != "causal_lm"
    trained = {name for name, value in model.named_parameters() if value.requires_grad}
    state = copy.deepcopy(randomised(model).state_dict())
    assert sum(value.numel() for value in state.values()) < 2 * sum(
        value.numel() for name, value in model.named_parameters() if name in trained
    )
    assert not any(name.endswith("embed_tokens.weight") for name in state)
    fresh.load_state_dict(state, strict=True)
    assert torch.equal(fresh(rows, **more)[0], model(rows, **more)[0])
    assert not torch.equal(fresh(rows, **more)[0], start)


def test_options_of_other_models_are_refused(bases: Bases, tmp_path: Path) -> None:
    path, theirs = bases["llama"]
    dictionary, _ = dictionary_of(path, theirs.config, tmp_path)
    for options, message in (
        ({"decoder_layers": 3}, "--decoder-layers: --base-model has its own"),
        ({"dropout": 0.3}, "--dropout: "),
        ({"adapted_layers": 4}, "--adapted-layers 4: the base has 3"),
        ({"base_sha256": "0"}, "another model than the one of this checkpoint"),
    ):
        with pytest.raises(InputError, match=message):
            build(path, dictionary, "transformer_lm_hier_adapter", **HIER | options)
    with pytest.raises(InputError, match="not found; give the folder of its base with --model-overrides"):
        build(tmp_path / "moved", dictionary, base_sha256="0")
    with pytest.raises(InputError, match="dictionary is not of this model's tokenizer"):
        build(path, Dictionary())


def change_config(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def change_weight(folder: Path, value: float | None) -> None:
    weights = load_file(folder / "model.safetensors")
    if value is None:
        del weights["model.norm.weight"]
    else:
        weights["model.norm.weight"][0] = value
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def drop_tokens(folder: Path) -> None:
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["vocab"] |= {"many": 5000}
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (change_config(auto_map={"AutoModelForCausalLM": "code.Model"}), r"config\.json: auto_map names code"),
        (change_config(model_type="vit"), "not a causal language model"),
        (change_config(architectures=["LlamaForSequenceClassification"]), "not a causal language model"),
        (change_config(num_hidden_layers=4), "missing weights, such as"),
        (change_config(num_hidden_layers=10**8), "larger than the maximum"),
        (change_config(hidden_size=2**20, intermediate_size=2**22, head_dim=4), "memory are free"),
        (lambda folder: change_weight(folder, None), "missing weights, such as model.norm.weight"),
        (lambda folder: change_weight(folder, math.nan), "not finite"),
        (lambda folder: os.truncate(folder / "model.safetensors", 5000), "cannot be loaded"),
        (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), "has no weights"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "is not the tokenizer"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "cannot be loaded"),
        (drop_tokens, "has the id 5000, but the model only"),
    ],
)
def test_bad_models_are_one_line(tmp_path: Path, spoil: Callable[[Path], Any], message: str) -> None:
    theirs = make_causal(tmp_path / "hf")
    dictionary, _ = dictionary_of(tmp_path / "hf", theirs.config, tmp_path)
    spoil(tmp_path / "hf")
    with pytest.raises(InputError, match=message) as caught:
        build(tmp_path / "hf", dictionary)
    assert "\n" not in str(caught.value)


_SMALL = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4}


@pytest.mark.parametrize(
    ("kind", "sizes", "message"),
    [
        ("bert", {**_SMALL, "is_decoder": True}, "changes scores behind its output layer"),
        ("xlnet", {"d_model": 16, "n_layer": 1, "n_head": 4, "d_inner": 24}, "has no cache of the usual form"),
        ("bart", {"d_model": 16, "encoder_layers": 1, "decoder_layers": 2}, "its layers are not one list"),
        # Its layers keep their states, where a beam cannot reorder them.
        ("recurrent_gemma", {**_SMALL, "num_hidden_layers": 3, "lru_width": 16}, "other scores token by token"),
        ("gemma4_text", {**_SMALL, "head_dim": 4, "vocab_size_per_layer_input": 400}, "has several vocabularies"),
    ],
)
def test_models_that_cannot_be_run_alike_are_refused(
    tmp_path: Path, kind: str, sizes: dict[str, Any], message: str
) -> None:
    theirs = make_causal(tmp_path / "hf", kind, **sizes)
    dictionary, _ = dictionary_of(tmp_path / "hf", theirs.config, tmp_path)
    with pytest.raises(InputError, match=message):
        build(tmp_path / "hf", dictionary)


def test_models_that_see_later_tokens_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = make_causal(tmp_path / "hf", "llama")
    dictionary, _ = dictionary_of(tmp_path / "hf", theirs.config, tmp_path)
    body, forward = type(theirs.model), type(theirs.model).forward

    def backwards(self: Any, input_ids: Tensor, past_key_values: Any = None, **options: Any) -> Any:
        out = forward(self, input_ids.flip(1), past_key_values=past_key_values, **options)
        out.last_hidden_state = out.last_hidden_state.flip(1)
        return out

    monkeypatch.setattr(body, "forward", backwards)
    with pytest.raises(InputError, match="other scores token by token"):
        build(tmp_path / "hf", dictionary)


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("phi", {}),
        ("granite", {"logits_scaling": 4.0}),
        ("gemma2", {"head_dim": 4, "num_key_value_heads": 2, "final_logit_softcapping": 3.0}),
    ],
)
def test_scores_with_a_bias_scale_or_limit_are_for_trees_only(tmp_path: Path, kind: str, sizes: dict[str, Any]) -> None:
    theirs = make_causal(tmp_path / "hf", kind, **_SMALL, **sizes)
    dictionary, order = dictionary_of(tmp_path / "hf", theirs.config, tmp_path)
    rows = rows_of(dictionary)
    with torch.no_grad():
        expected = theirs(torch.tensor(order)[rows]).logits[..., order]
        ours = build(tmp_path / "hf", dictionary, "transformer_lm_hier_adapter", **HIER)(rows, **inputs_of("hier"))[0]
    assert are_close(ours, expected)
    with pytest.raises(InputError, match="for topics, give another base"):
        build(tmp_path / "hf", dictionary, "transformer_lm_topic")


def test_gguf_files_are_checked(tmp_path: Path) -> None:
    for content, message in ((b"GGUF\x03", "cannot be loaded .*give the whole file"), (b"", "give the whole file")):
        path = tmp_path / "model.gguf"
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            build(path, Dictionary())
    with pytest.raises(InputError, match="not found"):
        build(tmp_path / "none.gguf", Dictionary())


def test_text_is_cut_as_the_model_does(bases: Bases) -> None:
    from transformers import AutoTokenizer

    path, _ = bases["gpt2"]
    ours, theirs = ModelTokenizer(tokenizer_of(path), path), AutoTokenizer.from_pretrained(path)
    texts = [*TEXT[:3], "odd \t  🙂 text", ""]
    encoded = list(ours.encode(texts))
    assert [list(map(int, line.split())) for line in encoded] == [theirs(text)["input_ids"] for text in texts]
    assert [ours.decode(line) for line in encoded] == texts
    # What looks like a special token in a text is text.
    (marked,) = ours.encode(["a<|endoftext|>"])
    assert "0" not in marked.split()
    assert ours.decode(marked) == "a<|endoftext|>"
    spellings = ours.spellings()
    assert "".join(spellings[number] for number in encoded[0].split()) == TEXT[0]

"""GPT-2 in fairseq gives Hugging Face's own logits, is evaluated and trained there, and goes back."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from safetensors.torch import load_file, save_file

from fairseq_ext.convert.fairseq_checkpoint import MODEL_FILE
from fairseq_ext.convert.gpt2_convert import export_gpt2, import_gpt2
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.text.byte_level_bpe import GPT2, read_imported_bpe
from tests.convert.tiny_gpt2 import TEXT, make_gpt2
from tests.verbs import verb

ROOT = Path(__file__).resolve().parents[2]
# The paper's bound; in single precision these sizes agree to the last bits.
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A Hugging Face directory and its model."""
    folder = tmp_path_factory.mktemp("hugging-face")
    return folder, make_gpt2(folder)


@pytest.fixture(scope="module")
def imported(source: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fairseq") / "gpt2"
    verb("import", "gpt2")([str(source[0]), str(folder)])
    return folder


def load(checkpoint: Path, data: Path) -> tuple[Any, Any]:
    """The model as fairseq's commands load it, and its task."""
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
    return models[0].eval(), task


def check_logits(model: Any, theirs: Any, folder: Path) -> None:
    """Random rows of all the length there is, without </s> inside and with it."""
    order = torch.tensor(read_imported_bpe(folder, GPT2).order())
    rows = torch.randint(4, len(order), (3, 24), generator=torch.Generator().manual_seed(1))
    rows[:, 0] = 2
    rows[1, 7] = 2
    with torch.no_grad():
        ours, expected = model(rows)[0], theirs(order[rows]).logits[..., order]
    assert expected.std() > 0.3
    assert (ours - expected).abs().max() <= TOLERANCE


def test_logits_are_the_same(source: tuple[Path, Any], imported: Path) -> None:
    model, task = load(imported / MODEL_FILE, imported)
    assert len(task.dictionary) == source[1].config.vocab_size
    check_logits(model, source[1], imported)
    theirs = sum(parameter.numel() for parameter in source[1].parameters())
    # fairseq's table of positions has two rows more.
    assert sum(parameter.numel() for parameter in model.parameters()) == theirs + 2 * 16


def test_padding_on_the_right_changes_nothing(imported: Path) -> None:
    model, _ = load(imported / MODEL_FILE, imported)
    rows = torch.tensor([[2, 40, 50, 60, 1, 1], [2, 40, 50, 60, 70, 80]])
    with torch.no_grad():
        both, alone = model(rows)[0], model(rows[:1, :4])[0]
    torch.testing.assert_close(both[:1, :4], alone)


@pytest.mark.slow
def test_other_sizes(tmp_path: Path) -> None:
    changes = [
        {"n_layer": 3, "n_head": 2, "n_inner": 40, "activation_function": "gelu"},
        {"n_embd": 24, "n_head": 3, "activation_function": "relu", "resid_pdrop": 0.0},
    ]
    for number, change in enumerate(changes):
        source, folder = tmp_path / f"hf{number}", tmp_path / f"fs{number}"
        folder.mkdir()
        theirs = make_gpt2(source, **change)
        import_gpt2(source, folder)
        check_logits(load(folder / MODEL_FILE, folder)[0], theirs, folder)


@pytest.mark.slow
def test_all_forms_of_weights(source: tuple[Path, Any], tmp_path: Path) -> None:
    """Without prefix and with masks, as in the first GPT-2 files; half precision; cut into several files."""
    weights = load_file(source[0] / "model.safetensors")
    bare = {name.removeprefix("transformer."): value for name, value in weights.items()}
    old = bare | {"h.0.attn.bias": torch.ones(1, 1, 24, 24), "h.1.attn.masked_bias": torch.tensor(-1e4)}
    names = sorted(bare)
    parts = {name: f"model-{1 + (number > 9)}-of-2.safetensors" for number, name in enumerate(names)}

    def write(kind: str, folder: Path) -> None:
        if kind == "old":
            torch.save(old, folder / "pytorch_model.bin")
        elif kind == "half":
            save_file({name: value.half() for name, value in weights.items()}, folder / "model.safetensors")
        else:
            for file in set(parts.values()):
                save_file({name: bare[name] for name in names if parts[name] == file}, folder / file)
            (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))

    states = {}
    for kind in ("old", "half", "parts"):
        folder = copy_texts(source[0], tmp_path / kind)
        write(kind, folder)
        (tmp_path / f"{kind}-fs").mkdir()
        import_gpt2(folder, tmp_path / f"{kind}-fs")
        states[kind] = load(tmp_path / f"{kind}-fs" / MODEL_FILE, tmp_path / f"{kind}-fs")[0].state_dict()
    for name, value in states["old"].items():
        assert torch.equal(states["parts"][name], value)
        assert torch.equal(states["half"][name], value if "version" in name else value.half().float())


@pytest.mark.slow
def test_export_is_loaded_by_hugging_face(source: tuple[Path, Any], imported: Path, tmp_path: Path) -> None:
    from transformers import GPT2LMHeadModel, GPT2Tokenizer

    verb("export-hf", "gpt2")([str(imported / MODEL_FILE), str(tmp_path / "back")])
    back = GPT2LMHeadModel.from_pretrained(tmp_path / "back").eval()
    for name, value in source[1].state_dict().items():
        assert torch.equal(back.state_dict()[name], value)
    assert back.config.eos_token_id == source[1].config.vocab_size - 1
    one, other = GPT2Tokenizer.from_pretrained(tmp_path / "back"), GPT2Tokenizer.from_pretrained(source[0])
    for text in [*TEXT[:3], "odd \r\n  🙂 text<|endoftext|>"]:
        assert one(text)["input_ids"] == other(text)["input_ids"]
    # And the way here again gives the same bytes.
    verb("import", "gpt2")([str(tmp_path / "back"), str(tmp_path / "again")])
    for name in ("dict.txt", "vocab.json", "merges.txt", MODEL_FILE):
        assert (tmp_path / "again" / name).read_bytes() == (imported / name).read_bytes()


@pytest.mark.slow
def test_fairseq_evaluates_trains_and_the_result_goes_back(
    source: tuple[Path, Any], imported: Path, tmp_path: Path
) -> None:
    from transformers import GPT2LMHeadModel

    data, ids = binarise(imported, tmp_path)
    common = [str(data), "--task", "language_modeling", "--tokens-per-sample", "24", "--cpu"]
    printed = run(
        "eval_lm", *common, "--path", str(imported / MODEL_FILE), "--gen-subset", "valid", "--batch-size", "3"
    )
    found = re.search(r"Loss \(base 2\): ([\d.]+)", printed)
    assert found
    assert float(found[1]) == pytest.approx(bits_per_token(source[1], ids), abs=2e-3)

    run("train", *common, "--arch", "transformer_lm", "--finetune-from-model", str(imported / MODEL_FILE),
        "--activation-fn", "gelu_accurate", "--decoder-learned-pos", "--no-scale-embedding",
        "--decoder-normalize-before", "--share-decoder-input-output-embed",
        "--decoder-layers", "2", "--decoder-attention-heads", "4",
        *(text for kind in ("embed", "input", "output") for text in (f"--decoder-{kind}-dim", "16")),
        "--decoder-ffn-embed-dim", "64", "--optimizer", "adam", "--lr", "0.01", "--batch-size", "4",
        "--max-update", "3", "--save-dir", str(tmp_path / "tuned"), "--no-epoch-checkpoints")  # fmt: skip
    tuned = tmp_path / "tuned" / "checkpoint_last.pt"
    (tmp_path / "back").mkdir()
    export_gpt2(tuned, imported, tmp_path / "back")
    back = GPT2LMHeadModel.from_pretrained(tmp_path / "back").eval()
    check_logits(load(tuned, data)[0], back, imported)
    assert bits_per_token(back, ids) < bits_per_token(source[1], ids) - 0.05


def binarise(imported: Path, folder: Path) -> tuple[Path, list[int]]:
    """TEXT as fairseq's data, and GPT-2's numbers of it; every line ends a text."""
    from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
    from fairseq.data import Dictionary

    from fairseq_ext.text.encoders import load_encoder

    data = folder / "data"
    data.mkdir()
    (data / "dict.txt").write_bytes((imported / "dict.txt").read_bytes())
    lines = list(load_encoder(imported)(TEXT))
    (folder / "text").write_text("\n".join(lines) + "\n")
    dictionary = Dictionary.load(str(data / "dict.txt"))
    for role in ("train", "valid"):
        binariser = VocabularyDatasetBinarizer(dictionary, append_eos=True)
        FileBinarizer.multiprocess_dataset(
            str(folder / "text"), "mmap", binariser, str(data / role), vocab_size=len(dictionary), num_workers=1
        )
    end = read_imported_bpe(imported, GPT2).order()[2]
    return data, [number for line in lines for number in (*map(int, line.split()), end)]


def bits_per_token(model: Any, ids: list[int]) -> float:
    """Blocks of 24 tokens; each sees the token before it, the first the end of a text."""
    total, stream = 0.0, [ids[-1], *ids]
    for start in range(0, len(ids), 24):
        block = torch.tensor(stream[start : start + 25])
        with torch.no_grad():
            scores = model(block[None, :-1]).logits[0].log_softmax(-1)
        total -= float(scores.gather(1, block[1:, None]).sum())
    return total / len(ids) / math.log(2)


def run(tool: str, *arguments: str) -> str:
    """One of fairseq's commands, as a user types it."""
    done = subprocess.run(
        [sys.executable, "-m", f"fairseq_cli.{tool}", *arguments, "--user-dir", str(ROOT / "fairseq_ext")],
        capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def copy_texts(source: Path, folder: Path) -> Path:
    folder.mkdir()
    for name in ("config.json", "vocab.json", "merges.txt"):
        (folder / name).write_bytes((source / name).read_bytes())
    return folder


def change_config(**changes: Any) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))

    return spoil


def change_weights(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        change(weights)
        save_file(weights, folder / "model.safetensors")

    return spoil


def cut_weights(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


class _Malice:
    def __reduce__(self) -> tuple:
        return os.system, ("touch MALICE",)


def hide_code(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"wte.weight": _Malice()}, protocol=2))


def lead_astray(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"wte.weight": "../model.safetensors"}}')


NORM = "transformer.h.1.ln_2.weight"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (change_config(model_type="gptj"), r"config\.json: model_type is 'gptj'; only models with 'gpt2'"),
        (change_config(layer_norm_epsilon=1e-6), r"layer_norm_epsilon is 1e-06; only models with 1e-05"),
        (change_config(scale_attn_by_inverse_layer_idx=True), r"scale_attn_by_inverse_layer_idx is True"),
        (change_config(activation_function=["gelu"]), r"activation_function: \['gelu'\] is none of gelu_new,"),
        (change_config(n_layer="2"), r"n_layer: expected a whole number above 0, got '2'"),
        (change_config(n_layer=10**9), r"model\.safetensors: has 2 layers, but config\.json says 1000000000"),
        (change_config(n_head=3), r"n_embd 16 is no multiple of n_head 3"),
        (change_config(resid_pdrop=2), r"resid_pdrop: expected a rate from 0 to 1, got 2"),
        (change_config(vocab_size=400), r"vocab_size is 400, but the tokeniser has \d+ symbols"),
        (change_config(n_positions=25), r"'wpe.weight' is torch.float32 of shape \(24, 16\), expected .*\(25, 16\)"),
        (change_weights(lambda weights: weights.pop(NORM)), r"the tensor 'h\.1\.ln_2\.weight' is missing"),
        (change_weights(lambda weights: weights.update(x=torch.ones(1))), r"the tensor 'x' is unknown"),
        (change_weights(lambda weights: weights.update({NORM: torch.ones(16).long()})), r"is torch.int64 of shape"),
        (change_weights(lambda weights: weights.update({"lm_head.weight": torch.ones(2)})), r"is not the embedding"),
        (cut_weights, r"model\.safetensors: damaged, cut off, or more than weights"),
        (hide_code, r"pytorch_model\.bin: damaged, cut off, or more than weights"),
        (lead_astray, r"index\.json: '\.\./model\.safetensors' is no file name"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"holds no weights; a model of Hugging Face's has"),
        (lambda folder: (folder / "config.json").unlink(), r"config\.json: not found; give a folder"),
    ],
)
def test_hostile_and_damaged_directories_are_one_clear_line(
    source: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = copy_texts(source[0], tmp_path / "hf")
    (folder / "model.safetensors").write_bytes((source[0] / "model.safetensors").read_bytes())
    spoil(folder)
    with pytest.raises(InputError, match=message) as caught:
        verb("import", "gpt2")([str(folder), str(tmp_path / "fs")])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "fs").exists()
    assert not (tmp_path / "MALICE").exists()


def test_other_models_are_not_exported(imported: Path, tmp_path: Path) -> None:
    state = torch.load(imported / MODEL_FILE, weights_only=True)

    def export(**changes: Any) -> None:
        torch.save(state | changes, tmp_path / "model.pt")
        export_gpt2(tmp_path / "model.pt", imported, tmp_path)

    model = state["cfg"]["model"]
    with pytest.raises(InputError, match=r"model\.pt: its option decoder_learned_pos is False, that of a GPT-2 True"):
        export(cfg=state["cfg"] | {"model": model | {"decoder_learned_pos": False}})
    with pytest.raises(InputError, match=r"activation_fn is 'tanh', GPT-2 knows"):
        export(cfg=state["cfg"] | {"model": model | {"activation_fn": "tanh"}})
    with pytest.raises(InputError, match=r"the tensor 'decoder\.layers\.0\.adapter\.up' is unknown; only plain GPT-2"):
        export(model=state["model"] | {"decoder.layers.0.adapter.up": torch.ones(1)})
    (tmp_path / "model.pt").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"model\.pt: "):
        export_gpt2(tmp_path / "model.pt", imported, tmp_path)

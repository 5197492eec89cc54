"""RoBERTa and XLM-R in fairseq give Hugging Face's own states and logits, are trained there, and go back."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils, options
from fairseq.data import Dictionary
from fairseq.models.roberta import RobertaModel
from safetensors.torch import load_file, save_file

from fairseq_ext.convert.fairseq_checkpoint import MODEL_FILE, write_checkpoint
from fairseq_ext.convert.roberta_convert import export_roberta, import_roberta
from fairseq_ext.convert.roberta_vocabulary import read_imported
from fairseq_ext.corpora.text_files import write_lines
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.text.encoders import fairseq_bpe_options, load_encoder
from fairseq_ext.text.subwords import SentencePiece, train_sentencepiece
from tests.convert.tiny_gpt2 import TEXT
from tests.convert.tiny_roberta import make_roberta
from tests.verbs import verb

ROOT = Path(__file__).resolve().parents[2]
LENGTH = 24
# The task's bound is 1e-4; in single precision these sizes agree to the last bits.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """Hugging Face directories and their models."""
    folder = tmp_path_factory.mktemp("hugging-face")
    return {
        "roberta": (folder / "roberta", make_roberta(folder / "roberta")),
        "xlmr": (folder / "xlmr", make_roberta(folder / "xlmr", is_xlmr=True)),
        "mask-first": (folder / "mask-first", make_roberta(folder / "mask-first", mask_last=False)),
    }


@pytest.fixture(scope="module")
def imported(sources: dict[str, tuple[Path, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("fairseq")
    for name, (source, _) in sources.items():
        verb("import", "roberta")([str(source), str(folder / name)])
    return {name: folder / name for name in sources}


def load(checkpoint: Path, data: Path) -> tuple[Any, Any]:
    """The model as fairseq's commands load it, and its task."""
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
    return models[0].eval(), task


def random_rows(num_symbols: int) -> torch.Tensor:
    """Three texts, one padded, one with a mask."""
    rows = torch.randint(4, num_symbols, (3, LENGTH), generator=torch.Generator().manual_seed(1))
    rows[:, 0] = 0
    rows[1, 14], rows[1, 15:] = 2, 1
    rows[2, 7] = num_symbols - 1
    return rows


def outputs(model: Any, rows: torch.Tensor) -> list[torch.Tensor]:
    """fairseq's states and logits, padding left out."""
    with torch.no_grad():
        logits, extra = model(rows, return_all_hiddens=True)
    return [value[rows != 1] for value in (*(state.transpose(0, 1) for state in extra["inner_states"]), logits)]


def check_outputs(folder: Path, theirs: Any, checkpoint: Path | None = None) -> None:
    """All states and the logits, in fairseq's order of symbols.

    The checkpoint is that of the folder with the subwords, if no other is given.
    """
    model, _ = load(checkpoint or folder / MODEL_FILE, folder)
    numbers = torch.tensor(read_imported(folder).order())
    rows = random_rows(len(numbers))
    is_text = rows != 1
    with torch.no_grad():
        found = theirs(numbers[rows], attention_mask=is_text.long(), output_hidden_states=True)
    expected = [value[is_text] for value in (*found.hidden_states, found.logits[..., numbers])]
    for one, other in zip(outputs(model, rows), expected, strict=True):
        assert other.std() > 0.3
        assert (one - other).abs().max() <= TOLERANCE


@pytest.mark.parametrize("name", ["roberta", "xlmr", "mask-first"])
def test_states_and_logits_are_the_same(
    sources: dict[str, tuple[Path, Any]], imported: dict[str, Path], name: str
) -> None:
    model, task = load(imported[name] / MODEL_FILE, imported[name])
    theirs = sources[name][1]
    order = list(read_imported(imported[name]).order())
    check_outputs(imported[name], theirs)
    assert len(task.dictionary) == theirs.config.vocab_size == task.mask_idx + 1
    assert order[-1] == (4 if name == "mask-first" else task.mask_idx)
    assert model.max_positions() == LENGTH
    # Token types became part of the positions.
    types = theirs.config.type_vocab_size * theirs.config.hidden_size
    assert sum(value.numel() for value in model.parameters()) == sum(p.numel() for p in theirs.parameters()) - types


@pytest.mark.slow
def test_other_sizes(tmp_path: Path) -> None:
    changes = {"num_hidden_layers": 3, "hidden_size": 24, "num_attention_heads": 2, "type_vocab_size": 1}
    theirs = make_roberta(tmp_path / "hf", hidden_dropout_prob=0.0, **changes)
    verb("import", "roberta")([str(tmp_path / "hf"), str(tmp_path / "fs")])
    check_outputs(tmp_path / "fs", theirs)


@pytest.mark.slow
def test_all_forms_of_weights(sources: dict[str, tuple[Path, Any]], imported: dict[str, Path], tmp_path: Path) -> None:
    """Copies, buffers and a pooler beside the weights, as in older files; half precision."""
    source = sources["roberta"][0]
    weights = load_file(source / "model.safetensors")
    embedding = weights["roberta.embeddings.word_embeddings.weight"]
    old = {name: value for name, value in weights.items() if name != "lm_head.bias"} | {
        "lm_head.decoder.weight": embedding,
        "lm_head.decoder.bias": weights["lm_head.bias"],
        "roberta.embeddings.position_ids": torch.arange(26)[None],
        "roberta.pooler.dense.weight": torch.ones(16, 16),
    }
    states = {}
    for kind in ("old", "half"):
        folder = copy_texts(source, tmp_path / kind)
        if kind == "old":
            torch.save(old, folder / "pytorch_model.bin")
        else:
            save_file({name: value.half() for name, value in weights.items()}, folder / "model.safetensors")
        (tmp_path / f"{kind}-fs").mkdir()
        import_roberta(folder, tmp_path / f"{kind}-fs")
        states[kind] = load(tmp_path / f"{kind}-fs" / MODEL_FILE, tmp_path / f"{kind}-fs")[0].state_dict()
    reference, _ = load(imported["roberta"] / MODEL_FILE, imported["roberta"])
    for name, value in reference.state_dict().items():
        assert torch.equal(states["old"][name], value)
        torch.testing.assert_close(states["half"][name], value, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_a_model_without_head_gets_one_that_knows_nothing(
    sources: dict[str, tuple[Path, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, theirs = sources["roberta"]
    folder = copy_texts(source, tmp_path / "hf")
    bare = {name.removeprefix("roberta."): value for name, value in load_file(source / "model.safetensors").items()}
    bare = {name: value for name, value in bare.items() if not name.startswith("lm_head.")}
    save_file(bare, folder / "model.safetensors")
    verb("import", "roberta")([str(folder), str(tmp_path / "fs")])
    assert "has no head for masked tokens" in capsys.readouterr().err
    rows = random_rows(theirs.config.vocab_size)
    *states, logits = outputs(load(tmp_path / "fs" / MODEL_FILE, tmp_path / "fs")[0], rows)
    with torch.no_grad():
        expected = theirs.roberta(rows, attention_mask=(rows != 1).long()).last_hidden_state[rows != 1]
    assert (states[-1] - expected).abs().max() <= TOLERANCE
    assert not logits.any()


@pytest.mark.parametrize("name", ["roberta", "xlmr", "mask-first"])
def test_export_is_loaded_by_hugging_face(
    sources: dict[str, tuple[Path, Any]], imported: dict[str, Path], tmp_path: Path, name: str
) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    source, theirs = sources[name]
    verb("export-hf", "roberta")([str(imported[name] / MODEL_FILE), str(tmp_path / "back")])
    back = AutoModelForMaskedLM.from_pretrained(tmp_path / "back").eval()
    assert type(back) is type(theirs)
    for tensor, value in theirs.state_dict().items():
        if "position_embeddings" not in tensor and "token_type" not in tensor:
            assert torch.equal(back.state_dict()[tensor], value)
    check_outputs(imported[name], back)
    one, other = AutoTokenizer.from_pretrained(tmp_path / "back"), AutoTokenizer.from_pretrained(source)
    assert (one.model_max_length, one.mask_token_id) == (LENGTH, other.mask_token_id)
    for text in (*TEXT[:3], "odd \r\n  🙂 text with a <mask>"):
        assert one(text)["input_ids"] == other(text)["input_ids"]
    # And the way here again gives the same bytes.
    verb("import", "roberta")([str(tmp_path / "back"), str(tmp_path / "again")])
    for path in imported[name].iterdir():
        if path.name != "step.json":
            assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_fairseqs_own_interface_reads_text_as_hugging_face_does(
    sources: dict[str, tuple[Path, Any]], imported: dict[str, Path]
) -> None:
    from transformers import AutoTokenizer

    for name in ("roberta", "xlmr"):
        options_ = {key.replace("-", "_"): value for key, value in fairseq_bpe_options(imported[name]).items()}
        roberta = RobertaModel.from_pretrained(str(imported[name]), **options_).eval()
        theirs, tokenizer = sources[name][1], AutoTokenizer.from_pretrained(sources[name][0])
        for texts in ((TEXT[0][:12],), (TEXT[1][:9], TEXT[2][:7])):
            rows = roberta.encode(*texts)
            assert rows.tolist() == tokenizer(*texts)["input_ids"]
            with torch.no_grad():
                expected = theirs(rows[None], output_hidden_states=True).hidden_states[-1]
                assert (roberta.extract_features(rows) - expected).abs().max() <= TOLERANCE
        assert roberta.decode(roberta.encode(TEXT[0])) == TEXT[0]


@pytest.fixture(scope="module")
def from_scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that fairseq itself initialised, with subwords of our own."""
    folder = tmp_path_factory.mktemp("scratch")
    write_lines(folder / "text", TEXT)
    pieces = SentencePiece(vocab_size=60, character_coverage=0.99)
    train_sentencepiece(folder, [[folder / "text"]], [], options=pieces, seed=1)
    arguments = ["--task", "masked_lm", "--criterion", "masked_lm", "--arch", "roberta", "--tokens-per-sample", "24",
                 "--encoder-layers", "2", "--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "40",
                 "--encoder-attention-heads", "4"]  # fmt: skip
    args = options.parse_args_and_arch(options.get_training_parser(), [str(folder), *arguments])
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    dictionary.add_symbol("<mask>")
    torch.manual_seed(1)
    model = RobertaModel.build_model(args, Namespace(source_dictionary=dictionary))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    write_checkpoint(folder, model.state_dict(), arguments, "MaskedLmLoss")
    return folder


@pytest.mark.slow
def test_a_model_from_scratch_becomes_an_xlmr(from_scratch: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, XLMRobertaForMaskedLM

    verb("export-hf", "roberta")([str(from_scratch / MODEL_FILE), str(tmp_path / "hf")])
    theirs = XLMRobertaForMaskedLM.from_pretrained(tmp_path / "hf").eval()
    _, task = load(from_scratch / MODEL_FILE, from_scratch)
    check_outputs(from_scratch, theirs)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert tokenizer.mask_token_id == task.mask_idx
    texts = [*TEXT[:3], "", "日本 ½ unseen letters", "two  spaces "]
    for text, pieces in zip(texts, load_encoder(from_scratch)(texts), strict=True):
        rows = task.dictionary.encode_line(pieces, add_if_not_exist=False).tolist()
        assert tokenizer(text)["input_ids"] == [0, *rows]
    # The subwords are now in the other layout, and split as before.
    verb("import", "roberta")([str(tmp_path / "hf"), str(tmp_path / "again")])
    assert (tmp_path / "again" / "dict.txt").read_bytes() == (from_scratch / "dict.txt").read_bytes()
    check_outputs(tmp_path / "again", theirs)


@pytest.mark.slow
def test_fairseq_trains_it_on_and_the_result_goes_back(
    sources: dict[str, tuple[Path, Any]], imported: dict[str, Path], tmp_path: Path
) -> None:
    from transformers import RobertaForMaskedLM

    subwords = imported["roberta"]
    data = binarise(subwords, tmp_path)
    run("train", str(data), "--task", "masked_lm", "--criterion", "masked_lm", "--arch", "roberta", "--cpu",
        "--finetune-from-model", str(subwords / MODEL_FILE), "--tokens-per-sample", "24",
        "--max-positions", "24", "--encoder-layers", "2", "--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "40",
        "--encoder-attention-heads", "4", "--optimizer", "adam", "--lr", "0.01", "--batch-size", "4",
        "--max-update", "3", "--save-dir", str(tmp_path / "tuned"), "--no-epoch-checkpoints")  # fmt: skip
    tuned = tmp_path / "tuned" / "checkpoint_last.pt"
    (tmp_path / "back").mkdir()
    export_roberta(tuned, subwords, tmp_path / "back")
    back = RobertaForMaskedLM.from_pretrained(tmp_path / "back").eval()
    check_outputs(subwords, back, tuned)
    name = "lm_head.dense.weight"
    assert not torch.equal(back.state_dict()[name], sources["roberta"][1].state_dict()[name])


@pytest.mark.slow
def test_the_size_of_roberta_base(tmp_path: Path) -> None:
    sizes = {"max_position_embeddings": 514, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
    theirs = make_roberta(tmp_path / "hf", intermediate_size=3072, type_vocab_size=1, noise=0.02, **sizes)
    verb("import", "roberta")([str(tmp_path / "hf"), str(tmp_path / "fs")])
    check_outputs(tmp_path / "fs", theirs)


def binarise(imported: Path, folder: Path) -> Path:
    """TEXT as fairseq's data."""
    from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer

    data = folder / "data"
    data.mkdir()
    (data / "dict.txt").write_bytes((imported / "dict.txt").read_bytes())
    write_lines(folder / "text", load_encoder(imported)(TEXT))
    dictionary = Dictionary.load(str(data / "dict.txt"))
    for role in ("train", "valid"):
        binariser = VocabularyDatasetBinarizer(dictionary, append_eos=True)
        FileBinarizer.multiprocess_dataset(
            str(folder / "text"), "mmap", binariser, str(data / role), vocab_size=len(dictionary), num_workers=1
        )
    return data


def run(tool: str, *arguments: str) -> None:
    """One of fairseq's commands, as a user types it."""
    done = subprocess.run(
        [sys.executable, "-m", f"fairseq_cli.{tool}", *arguments, "--user-dir", str(ROOT / "fairseq_ext")],
        capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def copy_texts(source: Path, folder: Path) -> Path:
    folder.mkdir()
    for name in ("config.json", "vocab.json", "merges.txt"):
        (folder / name).write_bytes((source / name).read_bytes())
    return folder


def change_config(**changes: Any) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text()) | changes
        kept = {key: value for key, value in config.items() if value is not ...}
        (folder / "config.json").write_text(json.dumps(kept))

    return spoil


def change_weights(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        change(weights)
        save_file(weights, folder / "model.safetensors")

    return spoil


class _Malice:
    def __reduce__(self) -> tuple:
        return os.system, ("touch MALICE",)


def hide_code(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"lm_head.bias": _Malice()}, protocol=2))


def remove_subwords(folder: Path) -> None:
    (folder / "vocab.json").unlink()
    (folder / "merges.txt").unlink()


NORM = "roberta.encoder.layer.1.output.LayerNorm.weight"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            change_config(model_type="electra"),
            r"config\.json: model_type is 'electra', which is none of roberta, xlm-roberta, bert",
        ),
        (change_config(layer_norm_eps=1e-6), r"layer_norm_eps is 1e-06; only models with 1e-05"),
        (change_config(layer_norm_eps=...), r"layer_norm_eps is 1e-12; only models with 1e-05"),
        (change_config(hidden_act="relu"), r"hidden_act is 'relu'; only models with 'gelu'"),
        (change_config(hidden_act=["gelu"]), r"hidden_act is \['gelu'\]; only models with 'gelu'"),
        (change_config(position_embedding_type="relative_key"), r"position_embedding_type is 'relative_key'; only"),
        (change_config(is_decoder=True), r"is_decoder is True; only models with False"),
        (change_config(tie_word_embeddings=False), r"tie_word_embeddings is False; only models with True"),
        (change_config(pad_token_id=0), r"pad_token_id is 0; only models with 1"),
        (change_config(num_hidden_layers="2"), r"num_hidden_layers: expected a whole number above 0, got '2'"),
        (change_config(num_hidden_layers=10**9), r"model\.safetensors: has 2 layers, but config\.json says 1000000000"),
        (change_config(num_attention_heads=3), r"hidden_size 16 is no multiple of num_attention_heads 3"),
        (change_config(max_position_embeddings=2), r"max_position_embeddings is 2, but 2 of them are never used"),
        (change_config(max_position_embeddings=27), r"'embeddings\.position_embeddings\.weight' is .*\(27, 16\)"),
        (change_config(vocab_size=400), r"vocab_size is 400, but the tokeniser has \d+ symbols"),
        (
            change_weights(lambda weights: weights.pop(NORM)),
            r"'encoder\.layer\.1\.output\.LayerNorm\.w.*' is missing",
        ),
        (change_weights(lambda weights: weights.pop("lm_head.bias")), r"the tensor 'lm_head\.bias' is missing"),
        (
            change_weights(lambda weights: weights.update({"classifier.dense.weight": torch.ones(1)})),
            r"the tensor 'classifier\.dense\.weight' is unknown; only plain RoBERTa",
        ),
        (change_weights(lambda weights: weights.update({NORM: torch.ones(16).long()})), r"is torch.int64 of shape"),
        (
            change_weights(lambda weights: weights.update({"lm_head.decoder.weight": torch.ones(2)})),
            r"'lm_head\.decoder\.weight' is not the embedding; only models with tied embeddings",
        ),
        (hide_code, r"pytorch_model\.bin: damaged, cut off, or more than weights"),
        (remove_subwords, r"holds no subwords; RoBERTa has vocab\.json and merges\.txt, XLM-R sentencepiece\.bpe"),
    ],
)
def test_hostile_and_other_directories_are_one_clear_line(
    sources: dict[str, tuple[Path, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    source = sources["roberta"][0]
    folder = copy_texts(source, tmp_path / "hf")
    (folder / "model.safetensors").write_bytes((source / "model.safetensors").read_bytes())
    spoil(folder)
    with pytest.raises(InputError, match=message) as caught:
        verb("import", "roberta")([str(folder), str(tmp_path / "fs")])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "fs").exists()
    assert not (tmp_path / "MALICE").exists()


def test_other_models_are_not_exported(imported: dict[str, Path], from_scratch: Path, tmp_path: Path) -> None:
    folder = imported["roberta"]
    state = checkpoint_utils.load_checkpoint_to_cpu(str(folder / MODEL_FILE))

    def export(tensors: dict[str, torch.Tensor] | None = None, **options_: Any) -> None:
        model = Namespace(**vars(state["cfg"]["model"]) | options_)
        changed = {**state, "cfg": {"model": model}, "model": state["model"] | (tensors or {})}
        torch.save(changed, tmp_path / "model.pt")
        export_roberta(tmp_path / "model.pt", folder, tmp_path)

    with pytest.raises(InputError, match=r"model\.pt: its option encoder_normalize_before is True, that of a RoBERTa"):
        export(encoder_normalize_before=True)
    with pytest.raises(InputError, match=r"its option untie_weights_roberta is True, that of a RoBERTa False"):
        export(untie_weights_roberta=True)
    with pytest.raises(InputError, match=r"its option activation_fn is relu, that of a RoBERTa gelu"):
        export(activation_fn="relu")
    with pytest.raises(InputError, match=r"holds task sst2, trec, for which Hugging Face's RoBERTa has no place"):
        export({"tasks.sst2.labels": torch.ones(1), "tasks.trec.norms.0.bias": torch.ones(1)})
    with pytest.raises(InputError, match=r"'classification_heads\.a\.dense\.bias' is unknown; only plain RoBERTa"):
        export({"classification_heads.a.dense.bias": torch.ones(1)})
    with pytest.raises(InputError, match=r"is torch.float32 of shape \(\d+, 16\), expected .*; model and options"):
        export_roberta(folder / MODEL_FILE, imported["xlmr"], tmp_path)
    with pytest.raises(InputError, match=r"holds no subwords; expected dict\.txt with"):
        verb("export-hf", "roberta")([str(tmp_path / "model.pt"), str(tmp_path / "x")])

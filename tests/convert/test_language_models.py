"""GPT-2, RoBERTa, XLM-R and BERT in fairseq give Hugging Face's own states and logits, are trained, and go back."""

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models.roberta import RobertaModel
from safetensors.torch import load_file, save_file

from fairseq_ext.convert.fairseq_model import MODEL_FILE
from fairseq_ext.convert.gpt2 import export_gpt2, import_gpt2
from fairseq_ext.convert.roberta import export_roberta
from fairseq_ext.convert.subwords import read_imported
from fairseq_ext.corpora.byte_level_bpe import GPT2, read_imported_bpe
from fairseq_ext.corpora.encoders import fairseq_bpe_options, load_encoder
from fairseq_ext.corpora.wordpiece import read_imported_wordpiece
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.bert import BertModel
from tests.convert.damage import WEIGHTS, change_json, change_weight, hide_code, lead_astray
from tests.convert.tiny_bert import make_bert
from tests.convert.tiny_gpt2 import TEXT, make_gpt2
from tests.convert.tiny_roberta import make_roberta
from tests.verbs import verb

pytestmark = pytest.mark.slow

Sources = dict[str, tuple[Path, Any]]
LENGTH = 24
# The papers' bound is 1e-4; in single precision these sizes agree to the last bits.
TOLERANCE = 1e-5
MAKERS: dict[str, Callable[..., Any]] = {
    "gpt2": make_gpt2,
    "roberta": make_roberta,
    "xlmr": lambda folder: make_roberta(folder, is_xlmr=True),
    "bert": make_bert,
}


def kind_of(name: str) -> str:
    """The verb's name of a model."""
    return "gpt2" if name == "gpt2" else "roberta"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """Hugging Face directories and their models."""
    folder = tmp_path_factory.mktemp("hugging-face")
    return {name: (folder / name, make(folder / name)) for name, make in MAKERS.items()}


@pytest.fixture(scope="module")
def imported(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("fairseq")
    for name, (source, _) in sources.items():
        verb("import", kind_of(name))([str(source), str(folder / name)])
    return {name: folder / name for name in sources}


def load(folder: Path) -> tuple[Any, Any]:
    """The model as fairseq's commands load it, and its task."""
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(folder / MODEL_FILE)], {"data": str(folder)})
    return models[0].eval(), task


def order_of(name: str, folder: Path) -> list[int]:
    """By fairseq's number of a symbol, Hugging Face's."""
    if name == "gpt2":
        return list(read_imported_bpe(folder, GPT2).order())
    return list((read_imported_wordpiece if name == "bert" else read_imported)(folder).order())


def random_rows(num_symbols: int, is_gpt2: bool = False) -> torch.Tensor:
    """Three texts, with </s> inside, or one padded and one with a mask."""
    rows = torch.randint(4, num_symbols, (3, LENGTH), generator=torch.Generator().manual_seed(1))
    rows[:, 0] = 2 if is_gpt2 else 0
    if is_gpt2:
        rows[1, 7] = 2
    else:
        rows[1, 14], rows[1, 15:], rows[2, 7] = 2, 1, num_symbols - 1
    return rows


def check_outputs(name: str, folder: Path, theirs: Any) -> None:
    """Compare states, and logits where the original has a head; of GPT-2, which norms its last state, only logits."""
    is_gpt2, numbers = name == "gpt2", torch.tensor(order_of(name, folder))
    rows = random_rows(len(numbers), is_gpt2)
    is_text, model = rows != 1, load(folder)[0]
    with torch.no_grad():
        found = theirs(numbers[rows], attention_mask=is_text.long(), output_hidden_states=True)
        ours, extra = model(rows, **({} if is_gpt2 else {"return_all_hiddens": True}))
    pairs = [] if is_gpt2 else list(zip(extra["inner_states"], found.hidden_states, strict=True))
    pairs = [(state.transpose(0, 1), expected) for state, expected in pairs]
    pairs += [(ours, found.logits[..., numbers])] if "logits" in found else []
    assert pairs
    for one, expected in pairs:
        assert expected[is_text].std() > 0.3
        assert (one[is_text] - expected[is_text]).abs().max() <= TOLERANCE


@pytest.mark.parametrize("name", MAKERS)
def test_states_and_logits_are_the_same(sources: Sources, imported: dict[str, Path], name: str) -> None:
    model, task = load(imported[name])
    theirs, order = sources[name][1], order_of(name, imported[name])
    check_outputs(name, imported[name], theirs)
    assert len(task.dictionary) == theirs.config.vocab_size
    assert sorted(order) == list(range(theirs.config.vocab_size))
    assert (type(model) is BertModel) == (name == "bert")
    assert model.max_positions() == LENGTH
    assert name == "gpt2" or task.mask_idx == len(order) - 1


def test_old_files_and_parts_are_read(sources: Sources, imported: dict[str, Path], tmp_path: Path) -> None:
    """GPT-2's first files had no prefix, and masks; large models are cut into several."""
    source = sources["gpt2"][0]
    weights = load_file(source / "model.safetensors")
    old = {key.removeprefix("transformer."): value for key, value in weights.items()}
    old |= {"h.0.attn.bias": torch.ones(1, 1, 24, 24).bool(), "h.1.attn.masked_bias": torch.tensor(-1e4)}
    torch.save(old, copy_source(source, tmp_path / "old", "model.safetensors") / "pytorch_model.bin")
    parts = copy_source(source, tmp_path / "parts", "model.safetensors")
    names = {key: f"model-{1 + (number > 9)}-of-2.safetensors" for number, key in enumerate(sorted(weights))}
    for file in set(names.values()):
        save_file({key: weights[key] for key in weights if names[key] == file}, parts / file)
    (parts / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    for folder in (tmp_path / "old", parts):
        output = tmp_path / f"{folder.name}-fs"
        output.mkdir()
        import_gpt2(folder, output)
        assert (output / MODEL_FILE).read_bytes() == (imported["gpt2"] / MODEL_FILE).read_bytes()


def test_a_model_without_head_gets_one_that_knows_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As MiniLM comes: tensors without the prefix, and a pooler."""
    theirs = make_bert(tmp_path / "hf", with_head=False)
    verb("import", "roberta")([str(tmp_path / "hf"), str(tmp_path / "fs")])
    assert "has no head for masked tokens" in capsys.readouterr().err
    check_outputs("bert", tmp_path / "fs", theirs)
    assert not load(tmp_path / "fs")[0](random_rows(theirs.config.vocab_size))[0].any()


@pytest.mark.parametrize("name", ["gpt2", "roberta", "xlmr"])
def test_hugging_face_loads_an_export(sources: Sources, imported: dict[str, Path], tmp_path: Path, name: str) -> None:
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

    source, theirs = sources[name]
    verb("export-hf", kind_of(name))([str(imported[name] / MODEL_FILE), str(tmp_path / "back")])
    back = (AutoModelForCausalLM if name == "gpt2" else AutoModelForMaskedLM).from_pretrained(tmp_path / "back").eval()
    assert type(back) is type(theirs)
    for tensor, value in theirs.state_dict().items():
        if "position_embeddings" not in tensor and "token_type" not in tensor:
            assert torch.equal(back.state_dict()[tensor], value)
    check_outputs(name, imported[name], back)
    one, other = AutoTokenizer.from_pretrained(tmp_path / "back"), AutoTokenizer.from_pretrained(source)
    if name == "gpt2":
        assert back.config.eos_token_id == theirs.config.vocab_size - 1
    else:
        assert (one.model_max_length, one.mask_token_id) == (LENGTH, other.mask_token_id)
    for text in (*TEXT[:3], "odd \r\n  🙂 text<|endoftext|> with a <mask>"):
        assert one(text)["input_ids"] == other(text)["input_ids"]
    # And the way here again gives the same bytes.
    verb("import", kind_of(name))([str(tmp_path / "back"), str(tmp_path / "again")])
    for path in imported[name].iterdir():
        if path.name != "step.json":
            assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_a_bert_reads_text_as_hugging_face_does(sources: Sources, imported: dict[str, Path]) -> None:
    from transformers import BertTokenizer

    folder = imported["bert"]
    tokenizer, order = BertTokenizer.from_pretrained(sources["bert"][0]), order_of("bert", folder)
    given = {key.replace("-", "_"): value for key, value in fairseq_bpe_options(folder).items()}
    hub = RobertaModel.from_pretrained(str(folder), **given).eval()
    texts = [*TEXT[:6], "Déjà vu: 中文 it's ½ [MASK]?\t<s>", "", "a" * 101]
    for text, pieces in zip(texts, load_encoder(folder)(texts), strict=True):
        rows, expected = hub.encode(text).tolist(), tokenizer(text)["input_ids"]
        if tokenizer.mask_token_id not in expected:  # what looks like a symbol in a text is text here
            assert [order[row] for row in rows] == expected
        assert rows == [0, *hub.task.source_dictionary.encode_line(pieces, add_if_not_exist=False).tolist()]
    words = " ".join(word for word in TEXT[0].lower().split() if word.isalpha())
    assert hub.decode(hub.encode(words)) == words


def copy_source(source: Path, folder: Path, *without: str) -> Path:
    """The files that tests of other forms and of damage begin with."""
    folder.mkdir()
    for name in {"config.json", "vocab.json", "merges.txt", "vocab.txt", "model.safetensors"} - {*without}:
        if (source / name).is_file():
            shutil.copy(source / name, folder)
    return folder


GPT2_NORM = "transformer.h.1.ln_2.weight"


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("gpt2", change_json("config.json", model_type="gptj"), r"config\.json: model_type"),
        ("gpt2", change_json("config.json", n_layer=10**7), r"model\.safetensors: has 2 layers"),
        ("gpt2", change_weight(GPT2_NORM, None), r"h\.1\.ln_2\.weight' is missing"),
        ("gpt2", change_weight(GPT2_NORM, torch.full((16,), math.nan)), r"h\.1\.ln_2\.weight' has .* not finite"),
        ("gpt2", lambda folder: os.truncate(folder / WEIGHTS, 5000), r"model\.safetensors: is damaged"),
        ("gpt2", hide_code, r"pytorch_model\.bin: is damaged"),
        ("gpt2", lead_astray, r"index\.json: weight_map: '\.\./model"),
        ("roberta", change_json("config.json", type_vocab_size=3), r"token_type_embeddings"),
        ("bert", lambda folder: (folder / "vocab.txt").write_text("[PAD]\nthe\n"), r"vocab\.txt: "),
    ],
)
def test_hostile_and_damaged_directories_are_one_clear_line(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, spoil: Callable, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = copy_source(sources[name][0], tmp_path / "hf")
    spoil(folder)
    with pytest.raises(InputError, match=message) as caught:
        verb("import", name if name == "gpt2" else "roberta")([str(folder), str(tmp_path / "fs")])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "fs").exists()
    assert not (tmp_path / "PWN").exists()


def test_other_models_are_not_exported(imported: dict[str, Path], tmp_path: Path) -> None:
    state = checkpoint_utils.load_checkpoint_to_cpu(str(imported["gpt2"] / MODEL_FILE))
    torch.save({**state, "model": state["model"] | {"decoder.layers.0.up": torch.ones(1)}}, tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"model\.pt: .*unknown: decoder\.layers\.0\.up"):
        export_gpt2(tmp_path / "model.pt", imported["gpt2"], tmp_path)
    state["cfg"]["model"].decoder_learned_pos = False
    torch.save(state, tmp_path / "model.pt")
    with pytest.raises(InputError, match=r"model\.pt: its option decoder_learned_pos"):
        export_gpt2(tmp_path / "model.pt", imported["gpt2"], tmp_path)
    with pytest.raises(InputError, match=r"model\.pt: .*wrong dictionary"):
        export_roberta(imported["roberta"] / MODEL_FILE, imported["xlmr"], tmp_path)

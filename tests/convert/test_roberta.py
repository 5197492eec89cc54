"""RoBERTa, XLM-R and BERT in fairseq give Hugging Face's own states and logits."""

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.models.roberta import RobertaModel
from safetensors.torch import load_file, save_file

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.fairseq_model import MODEL_FILE
from fairseq_ext.convert.roberta import import_roberta
from fairseq_ext.convert.subwords import read_vocabulary
from fairseq_ext.models.bert import BertModel
from fairseq_ext.text.encoders import fairseq_bpe_options, load_encoder
from tests import toy
from tests.convert.damage import WEIGHTS, change_json, change_weight, hide_code, lead_astray
from tests.convert.tiny_roberta import make_bert, make_roberta
from tests.text.tiny_pieces import TEXT
from tests.verbs import verb

pytestmark = pytest.mark.slow

Sources = dict[str, tuple[Path, Any]]
LENGTH = 24
# The papers' bound is 1e-4; in single precision these sizes agree to the last bits.
TOLERANCE = 1e-5
MAKERS: dict[str, Callable[..., Any]] = {
    "roberta": make_roberta,
    "xlmr": lambda folder: make_roberta(folder, is_xlmr=True),
    "bert": make_bert,
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """Hugging Face directories and their models."""
    folder = tmp_path_factory.mktemp("hugging-face")
    return {name: (folder / name, make(folder / name)) for name, make in MAKERS.items()}


@pytest.fixture(scope="module")
def imported(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("fairseq")
    for name, (source, _) in sources.items():
        verb("import", "roberta")([str(source), str(folder / name)])
    return {name: folder / name for name in sources}


def random_rows(num_symbols: int) -> torch.Tensor:
    """Three texts, one padded and one with a mask."""
    rows = torch.randint(4, num_symbols, (3, LENGTH), generator=torch.Generator().manual_seed(1))
    rows[:, 0] = 0
    rows[1, 14], rows[1, 15:], rows[2, 7] = 2, 1, num_symbols - 1
    return rows


def check_outputs(source: Path, folder: Path, theirs: Any) -> None:
    """Compare states, and logits where the original has a head."""
    numbers = torch.tensor(read_vocabulary(source).order())
    rows = random_rows(len(numbers))
    is_text, model = rows != 1, toy.load(folder / MODEL_FILE)[0]
    with torch.no_grad():
        found = theirs(numbers[rows], attention_mask=is_text.long(), output_hidden_states=True)
        ours, extra = model(rows, return_all_hiddens=True)
    states = zip(extra["inner_states"], found.hidden_states, strict=True)
    pairs = [(state.transpose(0, 1), expected) for state, expected in states]
    pairs += [(ours, found.logits[..., numbers])] if "logits" in found else []
    for one, expected in pairs:
        assert expected[is_text].std() > 0.3
        assert (one[is_text] - expected[is_text]).abs().max() <= TOLERANCE


@pytest.mark.parametrize("name", MAKERS)
def test_states_and_logits_are_the_same(sources: Sources, imported: dict[str, Path], name: str) -> None:
    model, task = toy.load(imported[name] / MODEL_FILE)
    source, theirs = sources[name]
    order = read_vocabulary(source).order()
    check_outputs(source, imported[name], theirs)
    assert len(task.dictionary) == theirs.config.vocab_size
    assert sorted(order) == list(range(theirs.config.vocab_size))
    assert (type(model) is BertModel) == (name == "bert")
    assert model.max_positions() == LENGTH
    assert task.mask_idx == len(order) - 1


def test_old_files_and_parts_are_read(sources: Sources, imported: dict[str, Path], tmp_path: Path) -> None:
    """Old files have numbers of positions, and no prefix; large models are cut into several."""
    source = sources["roberta"][0]
    weights = load_file(source / "model.safetensors")
    old = {key.removeprefix("roberta."): value for key, value in weights.items()}
    old["embeddings.position_ids"] = torch.arange(26.0)
    torch.save(old, copy_source(source, tmp_path / "old", "model.safetensors") / "pytorch_model.bin")
    parts = copy_source(source, tmp_path / "parts", "model.safetensors")
    names = {key: f"model-{1 + (number > 9)}-of-2.safetensors" for number, key in enumerate(sorted(weights))}
    for file in set(names.values()):
        save_file({key: weights[key] for key in weights if names[key] == file}, parts / file)
    (parts / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    for folder in (tmp_path / "old", parts):
        output = tmp_path / f"{folder.name}-fs"
        output.mkdir()
        import_roberta(folder, output)
        assert (output / MODEL_FILE).read_bytes() == (imported["roberta"] / MODEL_FILE).read_bytes()


def test_a_model_without_head_gets_one_that_knows_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As MiniLM comes: tensors without the prefix, and a pooler."""
    theirs = make_bert(tmp_path / "hf", with_head=False)
    verb("import", "roberta")([str(tmp_path / "hf"), str(tmp_path / "fs")])
    assert "has no head for masked tokens" in capsys.readouterr().err
    check_outputs(tmp_path / "hf", tmp_path / "fs", theirs)
    assert not toy.load(tmp_path / "fs" / MODEL_FILE)[0](random_rows(theirs.config.vocab_size))[0].any()


def test_a_bert_reads_text_as_hugging_face_does(sources: Sources, imported: dict[str, Path]) -> None:
    from transformers import BertTokenizer

    folder = imported["bert"]
    tokenizer = BertTokenizer.from_pretrained(sources["bert"][0])
    order = read_vocabulary(sources["bert"][0]).order()
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


def move_down(folder: Path) -> None:
    """As older models of sentence-transformers have their encoder."""
    (folder / "0_Transformer").mkdir()
    shutil.move(folder / WEIGHTS, folder / "0_Transformer")


NORM = "roberta.encoder.layer.1.output.LayerNorm.weight"


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("roberta", change_json("config.json", model_type="gptj"), r"config\.json: unknown model_type"),
        (
            "bert",
            change_json("config.json", tokenizer_class="BertJapaneseTokenizer"),
            "class is 'BertJapaneseTokenizer'",
        ),
        ("roberta", change_json("config.json", num_hidden_layers=10**7), r"model\.safetensors: has 2 layers"),
        ("roberta", change_weight(NORM, None), r"layer\.1\.output\.LayerNorm\.weight' is missing"),
        (
            "roberta",
            change_weight(NORM, torch.full((16,), math.nan)),
            r"layer\.1\.output.* not finite",
        ),
        ("roberta", lambda folder: os.truncate(folder / WEIGHTS, 5000), r"model\.safetensors: is damaged"),
        ("roberta", hide_code, r"pytorch_model\.bin: is damaged"),
        ("bert", move_down, r"has no weights.*; give .*hf/0_Transformer"),
        ("roberta", lead_astray, r"index\.json: weight_map: '\.\./model"),
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
        verb("import", "roberta")([str(folder), str(tmp_path / "fs")])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "fs").exists()
    assert not (tmp_path / "PWN").exists()

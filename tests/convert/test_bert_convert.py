"""A BERT in fairseq gives Hugging Face's own states and logits, and reads text as it does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.models.roberta import RobertaModel

from fairseq_ext.classifiers.task_adapters import load_task_model, size_options, write_model_alone
from fairseq_ext.convert.fairseq_checkpoint import MODEL_FILE
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.bert import NORM_EPS, BertModel
from fairseq_ext.text.encoders import fairseq_bpe_options, load_encoder
from fairseq_ext.text.wordpiece import read_imported_wordpiece
from tests.convert.test_roberta_convert import load, outputs
from tests.convert.tiny_bert import make_bert
from tests.convert.tiny_gpt2 import TEXT
from tests.verbs import verb

TOLERANCE = 1e-5
MINILM = os.environ.get("MINILM")  # a Hugging Face directory of all-MiniLM-L6-v2


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("hugging-face") / "bert"
    return folder, make_bert(folder)


@pytest.fixture(scope="module")
def imported(source: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fairseq") / "bert"
    verb("import", "roberta")([str(source[0]), str(folder)])
    return folder


def random_rows(num_symbols: int, length: int = 24) -> torch.Tensor:
    """Three texts in fairseq's numbers, one padded, one with a mask."""
    rows = torch.randint(4, num_symbols, (3, length), generator=torch.Generator().manual_seed(1))
    rows[:, 0] = 0
    rows[1, 14], rows[1, 15:] = 2, 1
    rows[2, 7] = num_symbols - 1
    return rows


def check_states(model: Any, theirs: Any, rows: torch.Tensor, order: list[int], tolerance: float) -> None:
    """All states, and the logits where the original has a head."""
    numbers, is_text = torch.tensor(order), rows != 1
    with torch.no_grad():
        found = theirs(numbers[rows], attention_mask=is_text.long(), output_hidden_states=True)
    expected = [state[is_text] for state in found.hidden_states]
    if "logits" in found:
        expected.append(found.logits[..., numbers][is_text])
    ours = outputs(model, rows)[: len(expected)]
    assert len(ours) == len(expected)
    for one, other in zip(ours, expected, strict=True):
        assert other.std() > 0.3
        assert (one - other).abs().max() <= tolerance


def test_states_and_logits_are_the_same(source: tuple[Path, Any], imported: Path) -> None:
    model, task = load(imported / MODEL_FILE, imported)
    order = read_imported_wordpiece(imported).order()
    assert type(model) is BertModel
    assert sorted(order) == list(range(source[1].config.vocab_size)) == list(range(len(task.dictionary)))
    assert model.max_positions() == 24
    check_states(model, source[1], random_rows(len(order)), order, TOLERANCE)


def test_the_epsilon_matters_here(source: tuple[Path, Any], imported: Path) -> None:
    """Otherwise the test above would not see RoBERTa's."""
    model, _ = load(imported / MODEL_FILE, imported)
    rows = random_rows(source[1].config.vocab_size)
    exact = outputs(model, rows)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            assert module.eps == NORM_EPS
            module.eps = 1e-5
    assert max((one - other).abs().max() for one, other in zip(outputs(model, rows), exact, strict=True)) > 1e-3


def test_without_a_head_for_masked_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As MiniLM comes: tensors without the prefix, and a pooler."""
    theirs = make_bert(tmp_path / "hf", with_head=False)
    verb("import", "roberta")([str(tmp_path / "hf"), str(tmp_path / "fs")])
    assert "has no head for masked tokens" in capsys.readouterr().err
    order = read_imported_wordpiece(tmp_path / "fs").order()
    model = load(tmp_path / "fs" / MODEL_FILE, tmp_path / "fs")[0]
    check_states(model, theirs, random_rows(len(order)), order, TOLERANCE)


def test_text_has_hugging_faces_numbers(source: tuple[Path, Any], imported: Path) -> None:
    from transformers import BertTokenizer

    tokenizer, order = BertTokenizer.from_pretrained(source[0]), read_imported_wordpiece(imported).order()
    options = {key.replace("-", "_"): value for key, value in fairseq_bpe_options(imported).items()}
    hub = RobertaModel.from_pretrained(str(imported), **options).eval()
    texts = [*TEXT[:6], "Déjà vu: 中文 it's ½ [MASK]?\t<s>", "", "a" * 101]
    for text, pieces in zip(texts, load_encoder(imported)(texts), strict=True):
        rows = hub.encode(text).tolist()
        special = tokenizer.convert_tokens_to_ids("[MASK]")
        expected = tokenizer(text)["input_ids"]
        if special not in expected:  # what looks like a symbol in a text is text here
            assert [order[row] for row in rows] == expected
        assert rows == [0, *hub.task.source_dictionary.encode_line(pieces, add_if_not_exist=False).tolist()]
    words = " ".join(word for word in TEXT[0].lower().split() if word.isalpha())
    assert hub.decode(hub.encode(words)) == words


def test_adapters_start_from_it_with_its_epsilon(source: tuple[Path, Any], imported: Path, tmp_path: Path) -> None:
    """A checkpoint with the architecture of adapters and without a task is the base, exactly."""
    write_model_alone(imported / MODEL_FILE, tmp_path / "model.pt")
    model = load_task_model(tmp_path / "model.pt", imported)
    assert size_options(imported / MODEL_FILE)["max-positions"] == 24
    order = read_imported_wordpiece(imported).order()
    rows = random_rows(len(order))
    check_states(model, source[1], rows, order, TOLERANCE)
    model.register_classification_head("fresh", 2)
    for norm, name in zip(model.tasks["fresh"].norms, model.base.norm_names, strict=True):
        norm.load_state_dict(model.base.get_submodule(name).state_dict(), strict=True)
    with torch.no_grad():
        base = model(rows, features_only=True)[0]
        with model.active("fresh"), model.without_adapters(range(2)):
            assert torch.equal(model(rows, features_only=True)[0], base)


def change_config(**changes: Any) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text()) | changes
        (folder / "config.json").write_text(json.dumps(config))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (change_config(layer_norm_eps=1e-5), r"layer_norm_eps is 1e-05; only models with 1e-12"),
        (change_config(pad_token_id=1), r"pad_token_id is 1; only models with 0"),
        (change_config(vocab_size=9), r"vocab_size is 9, but the tokeniser has \d+ symbols"),
        (change_config(max_position_embeddings=20), r"'embeddings\.position_embeddings\.weight' is .*\(26, 16\)"),
        (lambda folder: (folder / "vocab.txt").unlink(), r"holds no subwords"),
        (lambda folder: (folder / "vocab.txt").write_text("[PAD]\nthe\n"), r"vocab\.txt: \[CLS\] is missing"),
    ],
)
def test_other_directories_are_one_clear_line(
    source: tuple[Path, Any], tmp_path: Path, spoil: Callable, message: str
) -> None:
    for name in ("config.json", "vocab.txt", "model.safetensors"):
        (tmp_path / name).write_bytes((source[0] / name).read_bytes())
    spoil(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        verb("import", "roberta")([str(tmp_path), str(tmp_path / "fs")])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "fs").exists()


def test_there_is_no_way_back(imported: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"wordpiece\.json: is a BERT's, which has no way back"):
        verb("export-hf", "roberta")([str(imported / MODEL_FILE), str(tmp_path / "hf")])


@pytest.mark.slow
@pytest.mark.skipif(MINILM is None, reason="MINILM names no Hugging Face directory of all-MiniLM-L6-v2")
def test_minilm_itself(tmp_path: Path) -> None:
    from transformers import AutoTokenizer
    from transformers import BertModel as TheirBert

    verb("import", "roberta")([str(MINILM), str(tmp_path / "fs")])
    theirs, tokenizer = TheirBert.from_pretrained(MINILM).eval(), AutoTokenizer.from_pretrained(MINILM)
    order = read_imported_wordpiece(tmp_path / "fs").order()
    model = load(tmp_path / "fs" / MODEL_FILE, tmp_path / "fs")[0]
    texts = [*TEXT, "How far is it from Denver to Aspen?", "Déjà vu: 中文 it's ½ 🙂"]
    for text, pieces in zip(texts, load_encoder(tmp_path / "fs")(texts), strict=True):
        row = model.encoder.dictionary.encode_line(f"<s> {pieces}", add_if_not_exist=False).long()
        assert [order[number] for number in row] == tokenizer(text, padding=False, truncation=False)["input_ids"]
        check_states(model, theirs, row[None], order, 1e-4)

"""Pairs of texts as BERT reads them, with token types, and a linear head: logits are those of Hugging Face's BERT."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.classifiers.predictions import classify, to_input
from fairseq_ext.classifiers.task_adapters import load_task, load_task_model, read_checkpoint, save_task
from fairseq_ext.convert.fairseq_model import MODEL_FILE
from fairseq_ext.models.roberta_houlsby_adapter import RobertaHoulsbyAdapterModel
from fairseq_ext.modules.token_types import SECOND_TEXT
from fairseq_ext.text.wordpiece import read_imported_wordpiece
from tests import toy_tasks
from tests.convert.tiny_roberta import make_bert
from tests.verbs import verb

# Transformers is slow to import.
pytestmark = pytest.mark.slow

PAIR = [0, 7, 8, 9, 2, 10, 11, 2]  # [CLS] a [SEP] b [SEP]
ROWS = torch.tensor([PAIR, [0, 12, 2, 13, 2, 1, 1, 1], [0, 14, 15, 16, 2, 1, 1, 1]])
TYPES = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]])
# Of the BERT below, as fairseq's options.
SIZES = {
    "encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 40, "encoder_attention_heads": 4,
    "max_positions": 24,
}  # fmt: skip
SECOND_KEY = f"encoder.sentence_encoder.{SECOND_TEXT}"
TYPED = {"token_types": True}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """An imported BERT, and Hugging Face's; their type 1 is far from type 0."""
    folder = tmp_path_factory.mktemp("bert")
    theirs = make_bert(folder / "hf")
    with torch.no_grad():
        theirs.bert.embeddings.token_type_embeddings.weight.normal_()
    theirs.save_pretrained(folder / "hf")
    verb("import", "roberta")([str(folder / "hf"), str(folder / "fs")])
    return folder / "fs", theirs.bert


def make_model(
    folder: Path, name: str = "pairs", state: dict[str, Tensor] | None = None, **given: Any
) -> RobertaHoulsbyAdapterModel:
    """A model for one task that has not been trained, on the imported BERT or what a checkpoint has of it."""
    dictionary = SentencePredictionTask.load_dictionary(str(folder / "dict.txt"))
    task = SimpleNamespace(**{**vars(toy_tasks.make_task()), "source_dictionary": dictionary})
    torch.manual_seed(1)
    model = RobertaHoulsbyAdapterModel.build_model(toy_tasks.make_args(**SIZES, **given), task)
    model.register_classification_head(name, len(toy_tasks.LABELS))
    model.load_state_dict(read_checkpoint(folder / MODEL_FILE)["model"] if state is None else state)
    return model.eval()


@pytest.mark.parametrize(("has_types", "types"), [(True, TYPES), (False, torch.zeros_like(TYPES))])
def test_logits_are_berts_with_a_linear_layer(bert: tuple[Path, Any], has_types: bool, types: Tensor) -> None:
    folder, theirs = bert
    model = make_model(folder, tuning="full", token_types=has_types, linear_head=True)
    head = model.classification_heads["pairs"]
    assert [name for name, _ in head.named_parameters()] == ["out_proj.weight", "out_proj.bias"]
    numbers = torch.tensor(list(read_imported_wordpiece(folder).order()))
    with torch.no_grad():
        states = theirs(numbers[ROWS], attention_mask=(ROWS != 1).long(), token_type_ids=types).last_hidden_state
    expected = states[:, 0] @ head.out_proj.weight.T + head.out_proj.bias
    found = toy_tasks.logits(model, "pairs", ROWS)
    assert found.std() > 0.01
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_a_pair_is_read_without_a_second_separator(bert: tuple[Path, Any]) -> None:
    model = make_model(bert[0], **TYPED)
    words = [" ".join(model.encoder.dictionary[number] for number in text) for text in (PAIR[1:4], PAIR[5:7])]
    assert to_input(model, "pairs", words).tolist() == PAIR
    assert to_input(model, "pairs", words[:1]).tolist() == PAIR[:5]
    probabilities = toy_tasks.logits(model, "pairs", torch.tensor([PAIR])).softmax(-1)
    (answer,) = classify(model, "pairs", ["\t".join(words)], iter)
    assert answer.endswith(f"{probabilities.max():.4f}")


def test_tasks_of_both_kinds_share_a_file_on_a_base_with_types(bert: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = bert
    first = toy_tasks.randomise(make_model(folder, **TYPED, linear_head=True), "pairs")
    toy_tasks.write_checkpoint(tmp_path / "first.pt", first, **TYPED, linear_head=True)
    expected = toy_tasks.logits(first, "pairs", ROWS)
    save_task(tmp_path / "first.pt", "pairs", tmp_path / "pairs")
    load_task(tmp_path / "pairs", folder / MODEL_FILE, tmp_path / "loaded.pt")
    assert torch.equal(toy_tasks.logits(load_task_model(tmp_path / "loaded.pt", folder), "pairs", ROWS), expected)
    second = make_model(folder, "trec", read_checkpoint(tmp_path / "loaded.pt")["model"])  # has neither
    toy_tasks.train(second, "trec")
    assert torch.equal(toy_tasks.logits(second, "pairs", ROWS), expected)
    assert SECOND_KEY not in {name for name, value in second.named_parameters() if value.requires_grad}
    old = read_checkpoint(folder / MODEL_FILE)
    del old["model"][SECOND_KEY]
    torch.save(old, tmp_path / "old.pt")
    with pytest.raises(InputError, match="--token-types"):
        first.load_state_dict(old["model"])
    with pytest.raises(InputError, match=r"old\.pt: "):
        load_task(tmp_path / "pairs", tmp_path / "old.pt", tmp_path / "both.pt")

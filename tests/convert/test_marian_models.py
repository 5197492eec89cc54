"""Imported models of Marian compute what real Marian computes; ``record_marian.py`` recorded that."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from fairseq_ext.convert.marian_models import import_marian_model
from fairseq_ext.text.subwords import load_subwords, model_of
from tests import toy

FOLDER = Path(__file__).resolve().parent / "marian"
LANGUAGES = ("xx", "yy")
# Of source, target and output, if it is not one; fairseq cannot tie the first two alone, as pre-norm has them.
NUM_TABLES = {"ssru-pre-norm": 2, "pre-norm": 3, "separate": 3}


@pytest.fixture(scope="module", params=sorted(path.name for path in FOLDER.iterdir()))
def form(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """What Marian computes, and the folder of the import."""
    folder = tmp_path_factory.mktemp(request.param)
    import_marian_model(FOLDER / request.param, folder, LANGUAGES)
    return json.loads((FOLDER / request.param / "expected.json").read_text()), folder


def numbers(folder: Path, task: Any, side: int, line: str) -> torch.Tensor:
    """A sentence as symbols, 1×T."""
    pieces = load_subwords(model_of(folder, LANGUAGES[side])).encode(line, out_type=str)
    dictionary = (task.src_dict, task.tgt_dict)[side]
    return dictionary.encode_line(" ".join(pieces), add_if_not_exist=False).long()[None]


def search(folder: Path, beam: int) -> Any:
    """Translate as ``generation.txt`` says, but with this beam; scores are not normalised."""
    model, task = toy.load(folder / "model.pt")
    words = (folder / "generation.txt").read_text().split()
    told = dict(zip(words[::2], words[1::2], strict=True))
    options = {
        "beam": beam,
        "lenpen": 0,
        "max_len_a": float(told["--max-len-a"]),
        "max_len_b": int(told["--max-len-b"]),
    }
    options |= {"unkpen": float(told["--unkpen"]), "sampling": False, "nbest": 1}
    generator = task.build_generator([model], OmegaConf.create(options))

    def translate(line: str) -> tuple[str, float] | None:
        tokens = numbers(folder, task, 0, line)
        sample = {"net_input": {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.shape[1]])}}
        best = task.inference_step(generator, [model], sample)[0][0]
        if len(best["tokens"]) > options["max_len_a"] * tokens.shape[1]:
            return None  # Marian cuts it off, and fairseq adds </s>
        pieces = task.tgt_dict.string(best["tokens"]).split()
        return load_subwords(model_of(folder, LANGUAGES[1])).decode(pieces), float(best["score"])

    return translate


def test_tied_tables_stay_tied(form: tuple[dict[str, Any], Path]) -> None:
    """Although the decoder begins with zeros, and the output layer has a row for the symbol that begins it."""
    model, _ = toy.load(form[1] / "model.pt")
    modules = (model.encoder.embed_tokens, model.decoder.embed_tokens, model.decoder.output_projection)
    assert len({id(module.weight) for module in modules}) == NUM_TABLES.get(form[1].name.rstrip("0123456789"), 1)


def test_log_probabilities_of_given_targets_are_the_same(form: tuple[dict[str, Any], Path]) -> None:
    expected, folder = form
    model, task = toy.load(folder / "model.pt")
    assert len(expected["scores"]) > 12
    for source, target, score in zip(expected["source"], expected["target"], expected["scores"], strict=True):
        tokens, wanted = (numbers(folder, task, side, line) for side, line in enumerate((source, target)))
        with torch.no_grad():
            logits = model(tokens, torch.tensor([tokens.shape[1]]), wanted.roll(1, 1))
        found = model.get_normalized_probs(logits, log_probs=True)[0].gather(1, wanted.t()).sum()
        assert float(found) == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_the_same_or_in_a_wider_search_more_probable(
    form: tuple[dict[str, Any], Path], beam: int
) -> None:
    """Marian's beam loses a place with every hypothesis that ends, and fairseq's does not."""
    expected, folder = form
    translate, num_same = search(folder, beam), 0
    for source, (text, score) in zip(expected["source"], expected.get(f"beam {beam}", []), strict=False):
        found = translate(source)
        if found is not None and (beam == 1 or found[1] < score + 1e-4):
            assert found == (text, pytest.approx(score, abs=1e-4))
            num_same += 1
    assert num_same >= 10 or f"beam {beam}" not in expected

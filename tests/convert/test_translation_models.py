"""Imported translation models compute what Hugging Face's do, and translate text the same."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.origin import Origin
from fairseq_ext.convert.experiment_base import write_base
from fairseq_ext.convert.translation_models import import_translation_model
from fairseq_ext.hub import DomainTranslator
from tests import toy
from tests.convert import tiny_translation as tiny
from tests.convert.damage import change_json, change_weight
from tests.small_corpus import read_tree
from tests.verbs import verb

ORIGIN = Origin("tiny")

pytestmark = pytest.mark.slow  # transformers takes seconds to load

# Of each form: its family, how it differs from the usual one, and the languages to import.
FORMS: dict[str, tuple[str, dict[str, Any], tuple[str | None, str | None]]] = {
    "marian": ("marian", {}, (None, None)),
    "marian-many": ("marian", {"targets": ("deu", "fra")}, (None, "fra")),
    "marian-two-vocabularies": ("marian", {"is_joint": False, "activation_function": "relu"}, (None, None)),
    "marian-untied": ("marian", {"tie_word_embeddings": False, "activation_function": "gelu"}, (None, None)),
    "m2m": ("m2m", {"unused": 8}, tiny.LANGUAGES["m2m"]),
    "m2m-untied": ("m2m", {"tie_word_embeddings": False, "activation_function": "swish"}, tiny.LANGUAGES["m2m"]),
    "nllb": ("nllb", {"is_saved": False, "unused": 3}, tiny.LANGUAGES["nllb"]),
    "nllb-saved": ("nllb", {"scale_embedding": False}, tiny.LANGUAGES["nllb"]),
    "mbart": ("mbart", {"is_saved": False}, tiny.LANGUAGES["mbart"]),
    "mbart-saved": ("mbart", {"activation_function": "relu", "scale_embedding": False}, tiny.LANGUAGES["mbart"]),
    "mbart50": ("mbart50", {"is_saved": False, "tie_word_embeddings": False}, tiny.LANGUAGES["mbart50"]),
    "mbart50-saved": ("mbart50", {"unused": 1}, tiny.LANGUAGES["mbart50"]),
}


@pytest.fixture(scope="module", params=FORMS)
def form(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, Path]:
    """Hugging Face's model, its folder, and that of the import."""
    family, changes, languages = FORMS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    theirs = tiny.make(folder / "theirs", family, **changes)
    theirs.family = family
    (folder / "ours").mkdir()
    import_translation_model(folder / "theirs", folder / "ours", languages)
    return theirs, folder / "theirs", folder / "ours"


def told(folder: Path) -> dict[str, str]:
    """The options of an imported folder."""
    words = (folder / "options.txt").read_text().split()
    return dict(zip(words[::2], words[1::2], strict=True))


def numbers(symbols: list[str] | None, dictionary: Dictionary) -> torch.Tensor:
    """By fairseq's number, Hugging Face's; -1 for a symbol that it lacks."""
    if symbols is None:
        return torch.arange(len(dictionary))
    return torch.tensor([symbols.index(symbol) if symbol in symbols else -1 for symbol in dictionary.symbols])


def test_logits_are_the_same_and_fresh_adapters_change_nothing(form: tuple[Any, Path, Path]) -> None:
    theirs, source, folder = form
    model, task = toy.load(folder / "model.pt")
    adapted = toy.make_model(*toy.make_task(folder, *tiny.adapter_options(folder), arch="transformer_gated_adapter"))
    adapted.load_state_dict(model.state_dict(), strict=True)
    dictionaries = task.src_dict, task.tgt_dict
    sides = [numbers(*side) for side in zip(tiny.symbols(source), dictionaries, strict=True)]
    generator = torch.Generator().manual_seed(1)
    tokens, prev = (torch.randint(4, len(side), (3, 9), generator=generator) for side in sides)
    tokens[:, -1] = prev[:, 0] = 2
    tokens[1, :4] = 1  # padding, which fairseq puts on the left
    padded_right = tokens.clone()
    padded_right[1] = tokens[1].roll(-4)
    theirs_prev = sides[1][prev]
    if theirs.family == "marian":
        theirs_prev[:, 0] = theirs.config.decoder_start_token_id
    with torch.no_grad():
        found = model(tokens, tokens.ne(1).sum(1), prev)[0]
        frozen = model.requires_grad_(False)(tokens, tokens.ne(1).sum(1), prev)[0]  # which torch sums in another order
        assert torch.equal(adapted(tokens, tokens.ne(1).sum(1), prev, domain_ids=torch.tensor([0, 1, 1]))[0], frozen)
        mask = padded_right.ne(1).long()
        expected = theirs(sides[0][padded_right], mask, decoder_input_ids=theirs_prev).logits
    has = sides[1].ge(0)
    expected = expected[..., sides[1][has]]
    assert expected.std() > 0.5
    # Of numbers that are tens, half of the last digit is 2e-6.
    assert (found[..., has] - expected).abs().max() < 1e-5 * max(1, float(expected.abs().max()) / 10)
    torch.testing.assert_close(found.softmax(-1)[..., has], expected.softmax(-1), atol=1e-5, rtol=0)


def test_as_the_base_of_an_experiment_it_translates_the_same(form: tuple[Any, Path, Path], tmp_path: Path) -> None:
    """By the experiment's names of the languages, from Hugging Face's folder or the imported one, without options."""
    theirs, source, folder = form
    expected = tiny.translated(theirs, source, theirs.family, told(folder), beam=5)
    assert len(set(expected)) > 1  # how many depends on the rounding of the processor
    names = told(folder)["--source-lang"], told(folder)["--target-lang"]
    data = tmp_path / "data-bin"
    write_base(source, tmp_path / "model.pt", data, ("xx", "yy"), names, ORIGIN)
    write_base(folder, tmp_path / "other.pt", tmp_path / "other", ("xx", "yy"), names, ORIGIN)
    assert read_tree(data) == read_tree(tmp_path / "other")
    assert (tmp_path / "model.pt").read_bytes() == (tmp_path / "other.pt").read_bytes()
    (data / "domains.txt").write_text("law\nmed\n")
    hub = DomainTranslator.from_pretrained(tmp_path, data_name_or_path=data)
    found = hub.translate(tiny.LINES, beam=5, max_len_a=0, max_len_b=tiny.LENGTH, min_len=0)
    assert [own if wanted is not None else None for own, wanted in zip(found, expected, strict=True)] == expected


def test_the_command_imports_once_and_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny.make_marian(tmp_path / "blobs", steps=0, targets=("deu", "fra"))
    search = {"num_beams": 6, "max_length": 512, "length_penalty": 0.5, "early_stopping": True}
    (tmp_path / "blobs/generation_config.json").write_text(json.dumps(search))
    (tmp_path / "theirs").mkdir()
    for path in (tmp_path / "blobs").iterdir():  # as the hub's cache has a snapshot
        (tmp_path / "theirs" / path.name).symlink_to(path)
    for text in ("done", "up to date"):
        verb("import", "hf")([str(tmp_path / "theirs"), str(tmp_path / "ours"), "--target-lang", "fra"])
        captured = capsys.readouterr()
        assert text in captured.err
        assert "--source-lang eng --target-lang fra --language-tokens marian" in captured.out
    generation = (tmp_path / "ours/generation.txt").read_text().split()
    found = dict(zip(generation[::2], generation[1::2], strict=True))
    assert (found["--beam"], found["--lenpen"], found["--max-len-b"], found["--min-len"]) == ("6", "0.5", "510", "0")


def rename_pieces(folder: Path) -> None:
    path = folder / "vocab.json"
    symbols = json.loads(path.read_text())
    path.write_text(json.dumps({name if number < 4 else f"x{number}": number for name, number in symbols.items()}))


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian")
    tiny.make_marian(folder, steps=0, targets=("deu", "fra"))
    return folder


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (change_weight("model.encoder.layers.0.fc1.weight", None), "fc1"),
        (change_json("generation_config.json", decoder_start_token_id=10**9), "decoder_start_token_id"),
        (change_json("vocab.json", more=63), "vocab_size"),
        (rename_pieces, "are unknown to the model"),
        (lambda folder: (folder / "added_tokens.json").write_text('{"<term>": 99}'), "the token '<term>' was added"),
        (change_json("config.json", model_type="t5"), "model_type is 't5'"),
        (change_json("tokenizer_config.json", tokenizer_class="SMALL100Tokenizer"), "tokenizer_class is 'SMALL100"),
        (change_json("tokenizer_config.json", legacy_behaviour=True), "legacy_behaviour is True"),
        (change_weight("lm_head.weight", torch.zeros(2, 2)), "lm_head.weight differ, but config.json"),
        (change_json("generation_config.json", max_length="long"), "max_length in the generation settings is 'long'"),
    ],
)
def test_what_is_damaged_ends_in_one_line_and_nothing_is_written(
    marian: Path, change: Callable[[Path], None], match: str, tmp_path: Path
) -> None:
    shutil.copytree(marian, tmp_path / "theirs")
    change(tmp_path / "theirs")
    with pytest.raises(InputError, match=match) as caught:
        verb("import", "hf")([str(tmp_path / "theirs"), str(tmp_path / "ours"), "--target-lang", "fra"])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ours").exists()


def test_languages_are_those_of_the_model(marian: Path, tmp_path: Path) -> None:
    for languages, match in (((None, None), "--target-lang gem: .* deu, fra"), (("eng", "../x"), "--target-lang: ")):
        with pytest.raises(InputError, match=match):
            import_translation_model(marian, tmp_path, languages)
    with pytest.raises(InputError, match=r"tokenizer_config\.json: .* from eng to gem"):
        write_base(marian, tmp_path / "model.pt", tmp_path / "data-bin", ("gem", "eng"), (None, None), ORIGIN)
    assert not list(tmp_path.iterdir())

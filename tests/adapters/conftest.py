from pathlib import Path

import pytest

import tests.fairseq_ready  # noqa: F401
from fairseq_ext.serve.graphs.exported import Parts, writing
from fairseq_ext.text.subwords import DICT_FILE, SentencePiece, train_sentencepiece
from fairseq_ext.text.text_files import write_lines
from tests import toy, toy_systems
from tests.serve.graphs import small_systems


@pytest.fixture(scope="session")
def systems(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """Checkpoints ``NAME/model.pt`` of MIX, TAG, AD and GAD on one base, with LoRA and with gates to the base."""
    root = toy_systems.write_systems(data, tmp_path_factory.mktemp("systems"))
    lora = ("--adapter-form", "lora", "--lora-alpha", "1")
    for name, form, options in (("ad", "lora", lora), ("gad", "lora", lora), ("gad", "base", ("--gate-base",))):
        task, args, model = toy_systems.make_system(data, name, *options)
        args.source_lang, args.target_lang = task.cfg.source_lang, task.cfg.target_lang
        toy.write_checkpoint(root / f"{name}-{form}" / "model.pt", args, model)
    return root


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """AD, and GAD with a classifier or gates to the base, exported as ``NAME``, with their own SentencePiece model."""
    root = tmp_path_factory.mktemp("exports")
    (data := root / "data").mkdir()
    toy.write_text(root / "text", 300, seed=3)
    files = [[root / "text.en", root / "text.pl"]]
    tags = [f"<domain:{name}>" for name in toy.DOMAINS]
    train_sentencepiece(data, files, tags, options=SentencePiece(vocab_size=30), seed=1)
    for lang in ("en", "pl"):
        (data / f"dict.{lang}.txt").write_bytes((data / DICT_FILE).read_bytes())
    write_lines(data / "domains.txt", toy.DOMAINS)
    classifier = small_systems.write_classifier(root / "classifier")
    for name, own in (("ad", None), ("gad", classifier), ("gad-base", None)):
        kind, options = name.partition("-")[0], ["--gate-base"] if "base" in name else []
        _, args, model = toy_systems.make_system(data, kind, "--source-lang", "en", "--target-lang", "pl", *options)
        checkpoint = toy.write_checkpoint(root / "systems" / name / "model.pt", args, model)
        with writing(root / name) as folder:
            manifest = small_systems.manifest(kind, classifier="tfidf" if own else None)
            Parts(checkpoint, data, own).write(folder, manifest)
    return root

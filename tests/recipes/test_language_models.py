"""The preparation of language models through its command line: complete, repeatable, safe to kill."""

import gzip
import shutil
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from fairseq.data import Dictionary, data_utils, encoders

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.engine.staging import Staging
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes import language_models, text_steps
from fairseq_ext.recipes.registry import load_experiment
from fairseq_ext.text.encoders import fairseq_bpe_options, load_encoder
from tests.convert.tiny_gpt2 import make_imported_bpe
from tests.recipes.commands import kill_in_every_step
from tests.small_corpus import read_tree
from tests.text.odd_texts import ODD_TEXTS, fairseq_bpe
from tests.text.small_texts import SEEN, UNSEEN, write_config, write_texts
from tests.verbs import verb

STEPS = ("corpora", "splits", "subwords", "encoded", "data-bin", "data-bin-unseen")
SETS = [f"{role}.{kind}" for role in ("train", "valid", "test") for kind in ("bin", "idx")]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The work directory of an undisturbed run in this process."""
    folder = tmp_path_factory.mktemp("prepared")
    verb("prepare")([str(write_config(folder / "c.yaml", write_texts(folder / "text"))), "--workers", "1"])
    return folder / "work"


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vocabulary of an imported GPT-2; the model itself is not needed here."""
    return make_imported_bpe(tmp_path_factory.mktemp("gpt2"))


def steps_of(config: Path) -> list[Step]:
    """The steps of the preparation."""
    return language_models.preparation_steps(load_experiment(config)[1])


def decoded(data: Path, name: str, role: str) -> list[str]:
    """A binarised set as text again, by fairseq's own means and what lies in the data directory."""
    dictionary = Dictionary.load(str(data / "dict.txt"))
    options = {key.replace("-", "_"): value for key, value in fairseq_bpe_options(data).items()}
    bpe = encoders.build_bpe(Namespace(**options))
    rows = data_utils.load_indexed_dataset(str(data / name / role), dictionary)
    assert all(int(row[-1]) == dictionary.eos() for row in rows)
    return [bpe.decode(dictionary.string(row)) for row in rows]


def test_data_directories_are_complete(prepared: Path) -> None:
    for data, names in (("data-bin", SEEN), ("data-bin-unseen", UNSEEN)):
        expected = {"domains.txt", "dict.txt", "sentencepiece.model", "step.json"}
        assert set(read_tree(prepared / data)) == expected | {f"{name}/{file}" for name in names for file in SETS}
        assert (prepared / data / "domains.txt").read_text().split() == sorted(names)
        assert (prepared / data / "dict.txt").read_bytes() == (prepared / "subwords" / "dict.txt").read_bytes()


def test_binarised_text_is_the_written_one(prepared: Path) -> None:
    for role in ("train", "valid", "test"):
        for name in SEEN:
            assert decoded(prepared / "data-bin", name, role) == read_lines(prepared / "splits" / name / f"{role}.txt")
        # The subwords know no capital M.
        text = [line.replace("M", "<unk>") for line in read_lines(prepared / "splits" / "market" / f"{role}.txt")]
        assert decoded(prepared / "data-bin-unseen", "market", role) == text


def test_subwords_are_of_the_training_domains(prepared: Path, tmp_path: Path) -> None:
    text = write_texts(tmp_path / "text")
    (text / "unseen" / "market.txt").write_text("\n".join(f"日本語 {n} ñ" for n in range(100)) + "\n")
    verb("prepare")([str(write_config(tmp_path / "c.yaml", text)), "--to", "subwords"])
    # What is unseen changes nothing; only the lines that all domains had are now in other sets.
    symbols = (tmp_path / "work" / "subwords" / "dict.txt").read_text()
    assert "ñ" not in symbols
    assert "日" not in symbols
    assert len(symbols.splitlines()) == 90 - 4


def test_gpt2_subwords_are_those_of_fairseq(gpt2: Path, tmp_path: Path) -> None:
    text = write_texts(tmp_path / "text")
    odd = [line for line in (" ".join(text.split()) for text in ODD_TEXTS) if line]
    (text / "train" / "odd.txt").write_text("\n".join(odd * 10) + "\n", encoding="utf-8")
    split = {"valid": 1, "test": 1, "stretch": 1}
    config = write_config(tmp_path / "c.yaml", text, subwords={"gpt2": str(gpt2)}, split=split)
    verb("prepare")([str(config), "--workers", "1"])
    data = tmp_path / "work" / "data-bin"
    for name in ("dict.txt", "vocab.json", "merges.txt"):
        assert (data / name).read_bytes() == (gpt2 / name).read_bytes()
    for name in (*SEEN, "odd"):
        assert decoded(data, name, "train") == read_lines(tmp_path / "work" / "splits" / name / "train.txt")
    bpe = fairseq_bpe(gpt2)
    assert list(load_encoder(gpt2)(ODD_TEXTS)) == [bpe.encode(text) for text in ODD_TEXTS]


@pytest.mark.slow
def test_a_run_killed_in_every_step_ends_with_the_same_bytes(prepared: Path, tmp_path: Path) -> None:
    """Each time it goes on from where it was killed, up to the next step."""
    config = write_config(tmp_path / "c.yaml", write_texts(tmp_path / "text"))
    command = [sys.executable, "-m", "fairseq_ext.cli", "prepare", str(config), "--workers", "1"]
    kill_in_every_step(command, STEPS)
    verb("prepare")([str(config), "--workers", "1"])
    for name in STEPS:
        assert read_tree(tmp_path / "work" / name) == read_tree(prepared / name)
    assert not list((tmp_path / "work").glob(".*.step"))


def test_outputs_moved_halfway_are_moved_to_the_end(prepared: Path, tmp_path: Path) -> None:
    """A kill between two of the renames that end a step of tasks."""
    work = tmp_path / "work"
    shutil.copytree(prepared, work)
    config = write_config(tmp_path / "c.yaml", prepared.parent / "text")
    (work / "encoded/step.json").unlink()
    files = list((work / "encoded").rglob("*.txt"))
    [step] = [each for each in steps_of(config) if each.output.name == "encoded"]
    unfinished = Staging(step.output).start(step.provenance().fingerprint)
    unfinished.rmdir()
    step.output.rename(unfinished)
    folders = [unfinished / ".tasks" / f"{index:06d}" for index in range(len(files))]
    for folder in folders:
        folder.mkdir(parents=True)
    # The last set has not been moved yet.
    (folders[-1] / "school").mkdir()
    (unfinished / "school/valid.txt").rename(folders[-1] / "school/valid.txt")
    verb("prepare")([str(config), "--workers", "1"])
    for name in STEPS:
        assert read_tree(work / name) == read_tree(prepared / name)


def test_text_is_made_canonical(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    raw = "\ufeffone\r\n\r\n  two\twords \u2028 here\n\u200b\nthree\x00".encode() + b"\nbad \xff\n"
    with gzip.open(folder / "a.txt.gz", "wb") as file:
        file.write(raw)
    files = text_steps.text_files(folder)
    tally = text_steps.ImportText(files, "drop")(0, tmp_path)
    assert {"lines": 3, "blank": 2, "bad_utf8_dropped": 1, "control_characters": 1}.items() <= tally.items()
    assert read_lines(tmp_path / "a.txt") == ["one", "two words here", "three"]
    text_steps.ImportText(files, "replace")(0, tmp_path)
    assert read_lines(tmp_path / "a.txt")[-1] == "bad \ufffd"
    with pytest.raises(InputError, match=r"a\.txt\.gz, line 6: byte 5 is not UTF-8"):
        text_steps.ImportText(files, "fail")(0, tmp_path)


def test_unusable_folders_and_files_are_named(tmp_path: Path) -> None:
    text = write_texts(tmp_path / "text")

    def prepare(**corpora: str) -> None:
        verb("prepare")([str(write_config(tmp_path / "c.yaml", text, corpora=corpora)), "--workers", "1"])

    with pytest.raises(InputError, match="nowhere: not found"):
        prepare(folder=str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="text: holds no files"):
        prepare(folder=str(text))
    shutil.copytree(text / "train", text / "both")
    with pytest.raises(InputError, match=r"both/\w+\.txt"):
        prepare(folder=str(text / "train"), unseen=str(text / "both"))
    for content in (b" \n\xe2\x80\x8b\n", b"\xff\xfeU\x00"):
        (text / "unseen" / "empty.txt").write_bytes(content)
        with pytest.raises(InputError, match=r"empty\.txt: "):
            prepare(folder=str(text / "train"), unseen=str(text / "unseen"))


def test_incomplete_gpt2_folder_is_named(gpt2: Path, tmp_path: Path) -> None:
    text = write_texts(tmp_path / "text")
    shutil.copytree(gpt2, tmp_path / "gpt2")
    config = write_config(tmp_path / "c.yaml", text, subwords={"gpt2": str(tmp_path / "gpt2")})
    lines = read_lines(gpt2 / "dict.txt")
    (tmp_path / "gpt2" / "dict.txt").write_text("\n".join([*lines, "extra 1"]) + "\n")
    with pytest.raises(InputError, match=r"dict\.txt: is not the dictionary of vocab\.json"):
        verb("prepare")([str(config), "--workers", "1"])
    (tmp_path / "gpt2" / "dict.txt").unlink()
    with pytest.raises(InputError, match=r"subwords: its input .*dict\.txt does not exist"):
        verb("prepare")([str(config), "--workers", "1"])

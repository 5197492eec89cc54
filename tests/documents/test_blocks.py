"""Code blocks of README and docs do what they say, as far as ``blocks.py`` promises."""

import ast
import functools
import importlib.util
import io
import json
import re
import runpy
import shutil
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.base.fairseq_options import first_mistake
from fairseq_ext.cli.main import VERBS, run_verb
from fairseq_ext.experiments.registry import schemas
from tests.documents.blocks import LANGUAGES, PAGES, REASONS, ROOT, Block, blocks_in, commands_in
from tests.documents.project import make_project, run_block
from tests.experiments.test_schema import unknown_keys

BLOCKS = [block for page in PAGES for block in blocks_in(page)]
RUN = [page for page in PAGES if any(b.reason is None and b.language in ("sh", "python") for b in blocks_in(page))]


def of_language(language: str) -> Any:
    return pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == language], ids=str)


def test_blocks_name_their_language_and_a_known_reason() -> None:
    assert len(BLOCKS) > 60
    for block in BLOCKS:
        assert block.language in LANGUAGES, f"{block}: fence it, and name one of {', '.join(LANGUAGES)}"
        assert block.reason in (None, *REASONS), f"{block}: {block.reason}"


@functools.cache
def help_of(program: str, *verbs: str) -> str:
    """What a script or a verb of ``fairseq-ext`` says that it takes; asked in this process, which has all loaded."""
    said, handler = io.StringIO(), signal.getsignal(signal.SIGTERM)
    words = [*verbs, "--help"]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        patch.setattr(sys, "argv", [program, *words])
        patch.setattr(sys, "path", [*sys.path])
        script = partial(runpy.run_path, str(ROOT / program), run_name="__main__")
        with pytest.raises(SystemExit) as ended:
            run_verb(words) if program == "fairseq-ext" else script()
    signal.signal(signal.SIGTERM, handler)
    assert ended.value.code in (None, 0), f"{program} {' '.join(verbs)}: {ended.value.code}"
    return said.getvalue()


def unknown_options(words: list[str]) -> list[str]:
    """Options that the program of a command does not take."""
    program, *rest = words
    options = [word.partition("=")[0] for word in rest if re.match(r"--\w", word)]
    if program in ("fairseq_ext.cli", "scripts/fairseq-ext"):
        program = "fairseq-ext"
    if rest[:1] == ["--help"] or program.endswith(".sh"):
        return []
    if program.startswith("fairseq-") and program != "fairseq-ext":
        return unknown_to_fairseq(program, rest)
    verbs = [word for word in rest[:1] if re.fullmatch(r"[a-z]+", word)]
    if program == "fairseq-ext":  # some verbs have verbs of their own
        assert rest[0] in VERBS, f"fairseq-ext {' '.join(rest)}: no such verb"
        verbs = rest[: 1 + bool(VERBS[rest[0]].verbs)]
    text = help_of(program, *verbs)
    if verbs == ["train"]:  # passes on what is fairseq-train's
        from fairseq import options as fairseq_options

        text += fairseq_options.get_training_parser().format_help()
    return sorted(set(options) - set(re.findall(r"--[\w-]+", text)) - {"--help"})


def unknown_to_fairseq(program: str, words: list[str]) -> list[str]:
    """The first mistake in options of fairseq's, with those of architecture and criterion."""
    tool = {"fairseq-train": "train"}.get(program, "generate")
    options = words[next((i for i, word in enumerate(words) if word.startswith("-")), len(words)) :]
    options = [word for word in options if word != "…"]
    ours = "--help" not in options and program not in ("fairseq-preprocess", "fairseq-eval-lm")
    # A reader's excerpt may leave the architecture to the line before.
    complete = tool == "generate" or "--arch" in options
    place = options.index("--user-dir") if "--user-dir" in options else len(options)
    mistake = first_mistake([(tool, options[:place] + options[place + 2 :])]) if ours and complete else None
    return [mistake.text] if mistake else []


@of_language("sh")
def test_shell_blocks_name_files_and_options_that_exist(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in re.findall(
        r"\b(?:scripts|tools|data-prep|configs|requirements)[\w/.-]*\.(?:sh|py|yaml|txt)\b", block.text
    ):
        assert (ROOT / name).is_file(), name
    for words in commands_in(block.text):
        if words[0].startswith(("scripts/", "tools/", "data-prep/", "fairseq-", "fairseq_ext.")):
            assert unknown_options(words) == [], words


@of_language("python")
def test_python_blocks_compile_and_import_what_is_there(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            assert all(hasattr(module, name.name) for name in node.names)
        elif isinstance(node, ast.Import):
            assert all(importlib.util.find_spec(name.name) for name in node.names)


@pytest.mark.slow
@of_language("yaml")
def test_yaml_blocks_keep_to_a_schema(block: Block) -> None:
    content = yaml.safe_load(block.text)
    found = [unknown_keys(content, schema, schema) for schema in schemas().values()]
    assert [] in found, min(found, key=len)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A project of its own for each test."""
    return Path(shutil.copytree(made, tmp_path / "project", symlinks=True))


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_blocks_run(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.name in ("README.md", "experiment.md"):  # which begin with corpora alone
        (folder / "my.yaml").unlink()
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    for block in blocks_in(page):
        if block.reason is None and block.language == "sh":
            run_block(folder, block.text)
        elif block.reason is None and block.language == "python":
            exec(compile(block.text, str(block), "exec"), names)


@pytest.mark.slow
def test_the_notebook_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells of code in order, as a kernel runs them."""
    run_block(folder, "fairseq-ext export configs/quickstart.yaml gad exported/gad")
    (folder / "notebooks").mkdir()
    monkeypatch.chdir(folder / "notebooks")
    monkeypatch.setenv("MPLBACKEND", "agg")
    notebook = json.loads((ROOT / "examples" / "translate.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells):
        exec(compile(cell, f"cell {number}", "exec"), names)
    assert len(names["answers"]) == len(names["lines"]) == 3
    assert not any(cell.get("outputs") for cell in notebook["cells"])

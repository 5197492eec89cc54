"""A new recipe is one folder of under 70 lines, from its file to its page; nothing else has to know of it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

from fairseq_ext import recipes
from fairseq_ext.recipes.registry import recipe_names
from tests.verbs import verb

FOLDER = Path(__file__).parent / "seventh"
TRAIN = {"law": "The court rules\nthe law\n", "shop": "The red shoe\nred\n"}
TEST = {"law": "the court\n", "shop": "red hat\n"}


@pytest.fixture(autouse=True)
def seventh_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder, as if it lay beside the other recipes."""
    monkeypatch.setattr(recipes, "__path__", [*recipes.__path__, str(FOLDER)])


def write_experiment(folder: Path) -> Path:
    content: dict[str, object] = {"kind": "unigrams", "work_dir": str(folder / "work")}
    for key, texts in (("training", TRAIN), ("test", TEST)):
        content[key] = {domain: str(folder / f"{domain}.{key}") for domain in texts}
        for domain, text in texts.items():
            (folder / f"{domain}.{key}").write_text(text)
    path = folder / "unigrams.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_it_is_one_folder_of_under_70_lines_of_code() -> None:
    assert "unigrams" in recipe_names()
    lines = [line for path in FOLDER.rglob("*.py") for line in path.read_text().splitlines()]
    assert sum(bool(line.strip()) for line in lines) < 70


def test_it_runs_from_the_file_to_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_experiment(tmp_path)
    verb("run")([str(path)])
    # 6 words and the unknown one; of 5 and 4 tokens.
    law = [math.sqrt(12 / 3 * 12 / 2), math.sqrt(12 * 12)]
    shop = [math.sqrt(11 / 2 * 11 / 1), math.sqrt(11 / 3 * 11 / 1)]
    text = (tmp_path / "work/report/report.md").read_text()
    assert f"| law | **{law[0]:.1f}** | {law[1]:.1f} |" in text
    assert f"| shop | {shop[0]:.1f} | **{shop[1]:.1f}** |" in text
    assert "law</td>" in (tmp_path / "work/report/report.html").read_text()
    capsys.readouterr()
    verb("run")([str(path)])
    assert capsys.readouterr().err == "texts: up to date\nperplexity: up to date\nreport: up to date\n"

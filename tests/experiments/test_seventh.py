"""A new recipe is one folder (``seventh``), from its file to its page; nothing else has to know of it."""

import math
from pathlib import Path

import pytest
import yaml

from fairseq_ext import experiments
from tests.verbs import verb

FOLDER = Path(__file__).parent / "seventh"
TEXTS = {
    **{("training", "law"): "The court rules\nthe law\n", ("training", "shop"): "The red shoe\nred\n"},
    **{("test", "law"): "the court\n", ("test", "shop"): "red hat\n"},
}


def test_new_recipe_runs_from_file_to_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # As if the folder lay beside the other recipes.
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(FOLDER)])
    path, content = tmp_path / "unigrams.yaml", {"kind": "unigrams", "work_dir": str(tmp_path / "work")}
    files: dict[str, dict[str, str]] = {"training": {}, "test": {}}
    for (key, domain), text in TEXTS.items():
        files[key][domain] = str(tmp_path / f"{domain}.{key}")
        Path(files[key][domain]).write_text(text)
    path.write_text(yaml.safe_dump({**content, **files}))
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
    assert sum(bool(line.strip()) for code in FOLDER.rglob("*.py") for line in code.open()) < 60
    assert capsys.readouterr().err == "texts: up to date\nperplexity: up to date\nreport: up to date\n"

"""A new kind of experiment is one folder, of under 80 lines: nothing else has to hear of it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

from fairseq_ext import experiments
from fairseq_ext.experiments import prepare, run
from fairseq_ext.experiments.kinds import kind_names
from fairseq_ext.inputs.errors import InputError

FOLDER = Path(__file__).parent / "sixth_kind"
TRAIN = {"law": "The court rules\nthe law\n", "shop": "The red shoe\nred\n"}
TEST = {"law": "the court\n", "shop": "red hat\n"}


@pytest.fixture(autouse=True)
def sixth_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder, as if it lay beside the other kinds."""
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(FOLDER)])


def write_experiment(folder: Path, **changes: object) -> Path:
    content: dict[str, object] = {"kind": "unigrams", "work_dir": str(folder / "work")}
    for split, texts in (("train", TRAIN), ("test", TEST)):
        for domain, text in texts.items():
            (folder / f"{domain}.{split}").write_text(text)
        content[split] = {domain: str(folder / f"{domain}.{split}") for domain in texts}
    path = folder / "unigrams.yaml"
    path.write_text(yaml.safe_dump({**content, **changes}))
    return path


def row_of(report: Path, name: str) -> list[str]:
    [row] = [line for line in report.read_text().splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in row.strip("|").split("|")[1:]]


def test_it_is_one_folder_of_under_80_lines() -> None:
    assert "unigrams" in kind_names()
    lines = [line for path in FOLDER.rglob("*.py") for line in path.read_text().splitlines()]
    assert sum(bool(line.strip()) for line in lines) < 80


def test_it_runs_from_the_file_to_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_experiment(tmp_path)
    run.main([str(path)])
    # 6 words and the unknown one; of 5 and 4 tokens.
    law = [math.sqrt(12 / 3 * 12 / 2), math.sqrt(12 * 12)]
    shop = [math.sqrt(11 / 2 * 11 / 1), math.sqrt(11 / 3 * 11 / 1)]
    report = tmp_path / "work/report/report.md"
    assert row_of(report, "law") == [f"**{law[0]:.1f}**", f"{law[1]:.1f}"]
    assert row_of(report, "shop") == [f"{shop[0]:.1f}", f"**{shop[1]:.1f}**"]
    assert (tmp_path / "work/report/report.html").is_file()
    capsys.readouterr()
    run.main([str(path)])
    assert capsys.readouterr().err == "texts: up to date\nperplexity: up to date\nreport: up to date\n"


def test_its_data_are_prepared_by_the_common_command(tmp_path: Path) -> None:
    prepare.main([str(write_experiment(tmp_path))])
    assert [path.name for path in (tmp_path / "work").glob("[!.]*")] == ["texts"]
    assert (tmp_path / "work/texts/law").read_text() == TRAIN["law"].lower()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"smooth": 1}, "unigrams.yaml: unknown key 'smooth'; allowed are smoothing, test, train, work_dir"),
        ({"smoothing": 0}, "unigrams.yaml: smoothing: 0.0 is too small; give more than 0"),
        ({"kind": "bigrams"}, "unigrams.yaml: kind: 'bigrams' is unknown; choose one of .*translation, unigrams"),
    ],
)
def test_its_file_is_checked(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run.main([str(write_experiment(tmp_path, **changes)), "--dry-run"])

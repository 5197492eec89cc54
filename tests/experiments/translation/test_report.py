"""Page, Markdown and pictures say the same, are files of their own, and no text can do them harm."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.report import main, make_report, report_step

from fairseq_ext.engine.records import is_finished
from fairseq_ext.engine.steps import run_steps, step_fingerprint
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.report.content import Missing
from fairseq_ext.report.writing import write_report
from tests.experiments.translation import made_up
from tests.experiments.translation.small_translation_experiment import write_translation_experiment
from tests.filtering.test_report import Page, script_hash
from tests.recorded import restore

HOSTILE = "</td></table></section><script>alert(1)</script> \" onload='x' | pipe \\ {{ 7 * 7 }} ` \u202e &lt; ]]>"


def write(folder: Path, config: TranslationExperiment) -> dict[str, str]:
    """The files of the report."""
    folder.mkdir()
    write_report(folder, make_report(config))
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}


@pytest.fixture
def experiment(tmp_path: Path) -> TranslationExperiment:
    """What a tiny real run has measured."""
    (tmp_path / "words.md").write_text("It *works*.\n\n- as <b>hoped</b>\n", encoding="utf-8")
    report = {"reading": "words.md", "ablation": ["gad", "tag-*"]}
    return restore("translation", write_translation_experiment(tmp_path, report=report))


@pytest.fixture
def files(experiment: TranslationExperiment) -> dict[str, str]:
    return write(experiment.work_dir / "report", experiment)


@pytest.fixture
def scores(experiment: TranslationExperiment) -> dict[str, Any]:
    """chrF of every output, by column."""
    record = json.loads((experiment.work_dir / "scores/scores.json").read_text(encoding="utf-8"))
    return {name: {key: f["mean"] for key, f in output["chrF"].items()} for name, output in record["outputs"].items()}


def test_all_files_are_written(files: dict[str, str]) -> None:
    assert list(files) == [
        "confusion.svg",
        "curves.svg",
        "distances.svg",
        "gains.svg",
        "gate-agreement.svg",
        "gate-layers-gad.svg",
        "gates-gad.svg",
        "records.jsonl",
        "report.html",
        "report.md",
    ]


def test_every_part_is_in_the_page_and_in_the_markdown(files: dict[str, str], scores: dict[str, Any]) -> None:
    page = " ".join(" ".join(Page(files["report.html"]).texts).split())
    titles = [f"Table {number}." for number in (1, 2, 3, 4, 10, 11, 5, 6, 8, 9)] + ["Figure 3.", "Figure 4."]
    titles += ["Validation curves of the base models", "Trainings", "Comparisons: chrF", "Your own test sets"]
    for title in [*titles, "Reading", "Agreement of gates and classifier", "Gate weights by layer: gad"]:
        assert title in page
        assert title in files["report.md"]
    assert "Table 4. Translation quality: COMET – not run: no model." in page
    assert "**Table 4. Translation quality: COMET** – not run: no model." in files["report.md"]
    assert "It *works*.\n\n- as <b>hoped</b>" in files["report.md"]
    assert "<li>as &lt;b&gt;hoped&lt;/b&gt;</li>" in files["report.html"]
    best = max(scores.keys() - {"ft", "tag-oracle", "tag-classifier"}, key=lambda name: scores[name]["AVG"])
    assert f"The best system that needs no domain is {best}, with chrF {scores[best]['AVG']:.1f}" in page
    assert page.count("mix has not converged: in the last tenth of its 60 updates") == 2
    assert "Table 7." not in page  # the timings are not kept, and no section says only that they are not there


def test_the_page_has_the_rows_of_the_tables(files: dict[str, str], scores: dict[str, Any]) -> None:
    page = Page(files["report.html"])
    figures = [f"{scores['mix'][column]:.2f}" for column in ("bank", "garden", "AVG", "wAVG")]
    assert page.row("mix", figures[0]) == ["mix", *figures]
    assert page.row("SUM") == ["SUM", "160", "20"]
    assert page.row("told the true domain of every sentence")


def test_markdown_tables_are_well_formed(files: dict[str, str], scores: dict[str, Any]) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", files["report.md"], re.MULTILINE)
    assert len(tables) > 8
    for table in tables:
        lines = table.splitlines()
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
        assert len(widths) == 1
        assert re.fullmatch(r"\|(--\|)((--|-:)\|)*", lines[1])
    assert f"| mix | {scores['mix']['bank']:.2f} |" in files["report.md"].replace("*", "")


def test_pictures_of_the_markdown_exist_and_are_xml(files: dict[str, str]) -> None:
    named = re.findall(r"!\[[^]]*\]\(([^)]*)\)", files["report.md"])
    assert sorted(named) == sorted(name for name in files if name.endswith(".svg"))
    for name in named:
        root = ElementTree.fromstring(files[name])
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        # Programs that are no browser know no variables.
        assert "var(" not in files[name]


def test_sources_are_named_and_exist(files: dict[str, str], experiment: TranslationExperiment) -> None:
    named = set(re.findall(r"(?:From| and) `([^`]+)`", files["report.md"]))
    assert "scores/scores.json" in named
    assert len(named) == 7
    assert all(list(experiment.work_dir.glob(name)) for name in named)
    signature = json.loads((experiment.work_dir / "scores/scores.json").read_text(encoding="utf-8"))["signatures"][
        "chrF"
    ]
    assert f"<code>{signature}</code>" in files["report.html"]
    assert f"`{signature}`" in files["report.md"]


def test_the_page_fetches_nothing_and_runs_its_own_script_alone(files: dict[str, str]) -> None:
    page = Page(files["report.html"])
    assert page.elements.count("script") == 1
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & set(page.elements)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "xlink:href", "style")]
    assert all(value and value.startswith("#") for name, value in page.attributes if name == "href")
    assert not re.search(r"https?:|url\(|@import", files["report.html"])
    assert f"; script-src 'sha256-{script_hash(files['report.html'])}'" in files["report.html"]


def test_links_lead_to_sections(files: dict[str, str]) -> None:
    page = Page(files["report.html"])
    links = [value for name, value in page.attributes if name == "href"]
    assert links == [f"#{value}" for name, value in page.attributes if name == "id"]


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    pages = []
    for number, text in enumerate(("harmless", HOSTILE)):
        (tmp_path / str(number)).mkdir()
        config = made_up.make_experiment(tmp_path / str(number), text=text)
        path = config.work_dir / "scores" / "scores.json"
        record = json.loads(path.read_text(encoding="utf-8")) | {"significance": text, "comet": text}
        record["signatures"]["chrF"] = text
        made_up.write_json(path, record)
        files = write(tmp_path / f"report{number}", config)
        for name in files:
            if name.endswith(".svg"):
                ElementTree.fromstring(files[name])
        # In code, signs stand for themselves.
        assert "<script>" not in re.sub("`[^`]*`", "", files["report.md"])
        assert "\u202e" not in files["report.md"] + files["report.html"]
        pages.append(Page(files["report.html"]))
    harmless, hostile = pages
    assert hostile.elements == harmless.elements
    assert [name for name, _ in hostile.attributes] == [name for name, _ in harmless.attributes]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    config = made_up.make_experiment(tmp_path)
    for name in ("distances/distances.json", "gates/gates.json"):
        path = config.work_dir / "analysis" / name
        path.write_text(path.read_text(encoding="utf-8").replace("LAW", "<b>&|"), encoding="utf-8")
    files = write(tmp_path / "report", config)
    assert "<b>&" not in files["report.html"]
    for name in files:
        if name.endswith(".svg"):
            ElementTree.fromstring(files[name])


def test_equal_records_make_equal_files(files: dict[str, str], experiment: TranslationExperiment) -> None:
    path = experiment.work_dir / "scores" / "scores.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    # The order of the outputs is that of the experiment file.
    record["outputs"] = {name: record["outputs"][name] for name in reversed(record["outputs"])}
    made_up.write_json(path, record)
    assert write(experiment.work_dir / "again", experiment) == files


@pytest.mark.parametrize("gone", [["analysis"], ["teacher"], ["scores"], ["scores", "teacher", "analysis"]])
def test_a_report_is_written_whatever_is_missing(tmp_path: Path, gone: list[str]) -> None:
    config = made_up.make_experiment(tmp_path)
    for name in gone:
        shutil.rmtree(config.work_dir / name)
    report = make_report(config)
    assert not [section.title for section in report.sections if all(isinstance(b, Missing) for b in section.blocks)]
    missing = [block for section in report.sections for block in section.blocks if isinstance(block, Missing)]
    assert missing or gone == ["scores", "teacher", "analysis"]
    files = write(tmp_path / "report", config)
    for block in missing:
        assert f"**{block.title}** – " in files["report.md"].replace("\\", "")
    assert Page(files["report.html"]).elements.count("section") == len(report.sections)
    if gone == ["scores", "teacher", "analysis"]:
        assert "Nothing has been scored yet." in files["report.html"]
        assert "<table" not in files["report.html"]


@pytest.mark.parametrize("num_domains", [1, 20])
def test_any_number_of_domains_has_a_report(tmp_path: Path, num_domains: int) -> None:
    domains = [f"domain_{number:02}" for number in range(num_domains)]
    files = write(tmp_path / "report", made_up.make_experiment(tmp_path, domains))
    assert Page(files["report.html"]).row("domain_ 00")
    for name in files:
        if name.endswith(".svg"):
            ElementTree.fromstring(files[name])


def test_the_step_runs_again_only_for_a_change(experiment: TranslationExperiment) -> None:
    def is_up_to_date() -> bool:
        step = report_step(experiment)
        return is_finished(step.output, step_fingerprint(step.output, step.inputs, step.options))

    run_steps([report_step(experiment)])
    assert is_up_to_date()
    experiment.path.with_name("words.md").write_text("two\n", encoding="utf-8")
    assert not is_up_to_date()
    run_steps([report_step(experiment)])
    (experiment.work_dir / "translations" / "gad" / "bank.de").write_text("x\n" * 10, encoding="utf-8")
    assert not is_up_to_date()
    run_steps([report_step(experiment)])
    shutil.rmtree(experiment.work_dir / "analysis" / "distances")
    assert not is_up_to_date()


def test_own_sets_are_compared_and_the_last_section_recommends(files: dict[str, str], scores: dict[str, Any]) -> None:
    page, markdown = Page(files["report.html"]), files["report.md"]
    assert page.row("Output", "AVG", "ood:NEWS", "test:FORUM", "test:PLANTS", "test:AVG")  # no empty columns
    assert "*over mix-continued*" in markdown
    assert "*over ad-uniform*" in markdown
    own = {column: f"{scores['gad'][f'test:{column}']:.2f}" for column in ("FORUM", "PLANTS", "AVG")}
    assert float(own["AVG"]) == pytest.approx((float(own["FORUM"]) + float(own["PLANTS"])) / 2, abs=0.011)
    assert page.row("gad", own["FORUM"])[1::2] == list(own.values())
    assert page.row("ft", "–")[1:3] == ["–", "–"]  # must be told the domain, which FORUM has none of
    assert markdown.rstrip().rpartition("## ")[2].startswith("Which system to deploy\n\nDeploy nothing yet: ")


def test_a_reading_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = made_up.make_experiment(tmp_path, reading="words.md")
    with pytest.raises(InputError, match=r"evaluate: report: reading: no file .*words\.md; write it"):
        report_step(config)


def test_the_command_prints_where_the_page_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = made_up.make_experiment(tmp_path)
    main([str(config.path), "--dry-run"])
    assert capsys.readouterr().out == f"build       {config.work_dir / 'report'}\n"
    main([str(config.path)])
    assert capsys.readouterr().out == f"{config.work_dir / 'report' / 'report.html'}\n"


@pytest.mark.slow
def test_importing_loads_no_drawing_or_templates() -> None:
    imports = "import sys, fairseq_ext.experiments.translation.report"
    code = f"{imports}; print({{'jinja2', 'markdown_it', 'matplotlib', 'torch'}} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"

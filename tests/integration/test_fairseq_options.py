"""The table of docs/gated-adapters.md, many rows of it: fairseq's switches with each method, or one line."""

import math
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import options
from fairseq.data.data_utils import load_indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq_cli import generate, interactive, validate

from fairseq_ext.base.errors import InputError
from fairseq_ext.hub import DomainTranslator
from fairseq_ext.tasks.multi_domain_language_modeling import MultiDomainLanguageModelingTask
from fairseq_ext.tasks.multi_domain_translation import MultiDomainTranslationTask
from tests import toy, toy_systems
from tests.toy_systems import by_hand, model_input

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gated-adapters.md"
LINES = ["w1 w2 w3", "w4 w5", "w6", "w7 w8 w9 w10"]
EACH = ["law", "sub", "med", "law"]
PAIRS = list(zip(LINES, EACH, strict=True))
TYPED = [f"<domain:{domain}> {line}" for line, domain in PAIRS]
SEARCH = {"beam": 2, "max_len_b": 6}
SEARCH_OPTIONS = ["--beam", "2", "--max-len-b", "6"]


class World:
    """Data in both forms, the four systems, and what fairseq's commands make of them in this process."""

    def __init__(self, root: Path):
        self.root = root
        self.data = {impl: toy.make_data(root / impl, impl=impl) for impl in ("mmap", "cached")}
        self.systems = toy_systems.write_systems(self.data["mmap"], root / "systems")
        self.hubs: dict[str, DomainTranslator] = {}

    def hub(self, names: str) -> DomainTranslator:
        """A model, or an ensemble ``ad:mix``, loaded once."""
        if names not in self.hubs:
            self.hubs[names] = self.fresh_hub(names)
        return self.hubs[names]

    def fresh_hub(self, names: str) -> DomainTranslator:
        files = ":".join(f"{name}/model.pt" for name in names.split(":"))
        return DomainTranslator.from_pretrained(self.systems, files, self.data["mmap"])

    def texts(self, split: str, language: str) -> list[tuple[str, str]]:
        """The sentences of a split and their domains, in order, read without the task."""
        dictionary = toy.make_dictionary()
        found = []
        for name in toy.DOMAINS:
            lines = load_indexed_dataset(str(self.data["mmap"] / name / f"{split}.en-pl.{language}"), dictionary)
            found += [(dictionary.string(tokens), name) for tokens in lines]
        return found

    def command(self, main: Callable[..., Any], system: str, *words: str, impl: str = "mmap", **given: Any) -> None:
        """Run one of fairseq's commands on a system's checkpoint."""
        kind = {generate.main: "generation", interactive.main: "interactive_generation", validate.main: "validation"}
        parser = getattr(options, f"get_{kind[main]}_parser")
        line = [
            str(self.data[impl]), "--user-dir", toy.USER_DIR, "--task", "multi_domain_translation", "--cpu",
            "--path", str(self.systems / system / "model.pt"), "--num-workers", "0",
            *toy_systems.ARCHITECTURES[system][1:], *words,
        ]  # fmt: skip
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser(), line))
        if main is validate.main:
            given["override_args"] = options.parse_args_and_arch(parser(), line, suppress_defaults=True)
        main(cfg, **given)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


Check = Callable[[World, str, pytest.CaptureFixture], None]
CHECKS: dict[str, Check] = {}


def row(name: str) -> Callable[[Check], Check]:
    """Check a row of the table: the function raises an InputError where a cell is refused."""

    def add(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return add


def printed(capsys: pytest.CaptureFixture, kind: str = "H") -> dict[int, str]:
    """The last field of the lines of a kind, by number; each number once."""
    found = re.findall(rf"^{kind}-(\d+)\t(.*)$", capsys.readouterr().out, re.MULTILINE)
    assert len({number for number, _ in found}) == len(found)
    return {int(number): text.rpartition("\t")[2] for number, text in found}


def translate(hub: DomainTranslator, pairs: Sequence[tuple[str, str | None]]) -> list[str]:
    lines, domains = zip(*pairs, strict=True)
    return hub.translate(list(lines), domain=list(domains), **SEARCH)


def forced(hub: DomainTranslator, texts: list[str]) -> torch.Tensor:
    """The log probabilities of all tokens of given translations of the lines."""
    return torch.cat([found["positional_scores"].float() for found in hub.score(LINES, texts, domain=EACH)])


def as_told(system: str, pairs: list[tuple[str, str]]) -> list[tuple[str, str | None]]:
    """Sentences of a test set with the domains that the system heeds: gates do, if they are asked for, not told."""
    return [(text, None if system == "gad" else domain) for text, domain in pairs]


# From Python


@row("… in several threads")
def check_threads(world: World, system: str, *_: Any) -> None:
    hub = world.hub(system)
    jobs = [[pair] for pair in PAIRS * 2]
    expected = [translate(hub, job) for job in jobs]
    with ThreadPoolExecutor(len(PAIRS)) as threads:
        assert list(threads.map(lambda job: translate(hub, job), jobs)) == expected


def add_ensemble(other: str) -> None:
    @row(f"ensemble with {other.upper()}, in either order")
    def check(world: World, system: str, *_: Any) -> None:
        """Its probabilities are the means of its models'; the other model's cell has the other order."""
        alone = [world.hub(name) for name in (system, other)]
        texts = translate(alone[0], PAIRS)
        probabilities = torch.stack([forced(hub, texts).exp() for hub in alone])
        both = world.fresh_hub(f"{system}:{other}")
        torch.testing.assert_close(forced(both, texts).exp(), probabilities.mean(0), atol=1e-4, rtol=1e-3)


for name in toy_systems.ARCHITECTURES:
    add_ensemble(name)


# fairseq-generate


def check_generate(
    world: World, system: str, capsys: pytest.CaptureFixture, split: str, *words: str, **given: Any
) -> None:
    """Every sentence of a split is translated once, as from Python."""
    common = ["--gen-subset", split, "--batch-size", "5", *SEARCH_OPTIONS]
    world.command(generate.main, system, *common, *words, **given)
    found = printed(capsys)
    expected = translate(world.hub(system), as_told(system, world.texts(split, "en")))
    assert [found[n] for n in range(len(found))] == expected


@row("`fairseq-generate --dataset-impl lazy`, `raw`")
def check_raw(world: World, system: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(InputError, match="raw"):
        check_generate(world, system, capsys, "test", "--dataset-impl", "raw")
    check_generate(world, system, capsys, "test", "--dataset-impl", "lazy", impl="cached")


@row("`fairseq-generate --num-shards --shard-id`")
def check_shards(world: World, system: str, capsys: pytest.CaptureFixture) -> None:
    parts = []
    for shard in ("0", "1"):
        words = ["--gen-subset", "test", "--batch-size", "3", *SEARCH_OPTIONS]
        world.command(generate.main, system, *words, "--num-shards", "2", "--shard-id", shard)
        parts.append(printed(capsys))
    assert not parts[0].keys() & parts[1].keys()
    found = parts[0] | parts[1]
    assert [found[n] for n in range(12)] == translate(world.hub(system), as_told(system, world.texts("test", "en")))


@row("`fairseq-generate --prefix-size`")
def check_prefix(world: World, system: str, capsys: pytest.CaptureFixture) -> None:
    words = ["--gen-subset", "test", "--batch-size", "5", "--beam", "1", "--max-len-b", "6", "--prefix-size", "1"]
    world.command(generate.main, system, *words)
    found = printed(capsys)
    dictionary = toy.make_dictionary()
    for n in (0, 5, 11):
        prefix = dictionary.encode_line(world.texts("test", "pl")[n][0], add_if_not_exist=False).tolist()[:1]
        expected = by_hand(world.data["mmap"], system, *as_told(system, world.texts("test", "en"))[n], prefix)
        assert found[n] == dictionary.string(torch.tensor(expected))


def scores_of(world: World, system: str, split: str) -> list[dict[str, Any]]:
    """What Python says of the translations of a split."""
    sources, domains = zip(*as_told(system, world.texts(split, "en")), strict=True)
    targets = [text for text, _ in world.texts(split, "pl")]
    return world.hub(system).score(list(sources), targets, domain=list(domains))


@row("`fairseq-generate --score-reference`")
def check_score_reference(world: World, system: str, capsys: pytest.CaptureFixture) -> None:
    world.command(generate.main, system, "--gen-subset", "test", "--batch-size", "5", "--score-reference")
    found = printed(capsys, "P")
    for n, one in enumerate(scores_of(world, system, "test")):
        bits = (one["positional_scores"] / math.log(2)).tolist()
        assert [float(value) for value in found[n].split()] == pytest.approx(bits, abs=2e-4)


# fairseq-validate


@row("`fairseq-validate --valid-subset train`")
def check_validate(world: World, system: str, *_: Any) -> None:
    with metrics.aggregate(new_root=True) as shown:
        world.command(validate.main, system, "--valid-subset", "train", "--batch-size", "5")
    figures = shown.get_smoothed_values()
    scored = list(zip(scores_of(world, system, "train"), world.texts("train", "pl"), strict=True))
    for name in toy.DOMAINS:
        own = [one["positional_scores"] for one, (_, domain) in scored if domain == name]
        assert figures[f"loss_{name}"] == pytest.approx(-torch.cat(own).mean().item() / math.log(2), abs=2e-3)


# fairseq-interactive


def type_lines(world: World, system: str, capsys: pytest.CaptureFixture, lines: list[str], *words: str) -> None:
    typed = world.root / f"typed-{system}"
    typed.write_text("".join(f"{line}\n" for line in lines))
    capsys.readouterr()
    world.command(interactive.main, system, "--input", str(typed), "--buffer-size", "4", *SEARCH_OPTIONS, *words)


@row("`fairseq-interactive`")
def check_interactive(world: World, system: str, capsys: pytest.CaptureFixture) -> None:
    type_lines(world, system, capsys, TYPED)
    assert list(printed(capsys).values()) == translate(world.hub(system), PAIRS)


@row("`fairseq-interactive --print-alignment`")
def check_alignment(world: World, system: str, capsys: pytest.CaptureFixture) -> None:
    type_lines(world, system, capsys, TYPED, "--print-alignment")
    out = capsys.readouterr().out
    task, _, model = toy_systems.make_system(world.data["mmap"], system)
    for n, (line, domain) in enumerate(PAIRS):
        source, extra = model_input(task, system, line, domain)
        text = re.search(rf"^H-{n}\t\S+\t(.*)$", out, re.MULTILINE)
        assert text is not None
        target = task.tgt_dict.encode_line(text[1], add_if_not_exist=False).long()
        before = torch.cat([target[-1:], target[:-1]]).unsqueeze(0)
        with torch.no_grad():
            attention = model(source, torch.tensor([source.size(1)]), before, **extra)[1]["attn"][0][0]
        best = attention[: len(target) - 1, :-1].argmax(1).tolist()  # neither side's end of sentence
        assert f"A-{n}\t" + " ".join(f"{word}-{i}" for i, word in enumerate(best)) in out.splitlines()


@row("`fairseq-interactive --constraints`")
def check_constraints(world: World, system: str, capsys: pytest.CaptureFixture) -> None:
    hub = world.hub(system)
    free = translate(hub, PAIRS)
    wanted = next(word for word in toy.WORDS if not any(word in text.split() for text in free))
    type_lines(world, system, capsys, [f"{line}\t{wanted}" for line in TYPED], "--constraints")
    out = capsys.readouterr().out
    found = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", out, re.MULTILINE))
    probabilities = dict(re.findall(r"^P-(\d+)\t(.*)$", out, re.MULTILINE))
    texts = [found[str(n)] for n in range(4)]
    assert all(wanted in text.split() for text in texts)
    bits = [float(value) for n in range(4) for value in probabilities[str(n)].split()]
    assert bits == pytest.approx((forced(hub, texts) / math.log(2)).tolist(), abs=2e-3)


# The page


def table() -> dict[str, list[str]]:
    """The cells of each row of the page's table of methods."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"^\| use \| MIX \| TAG \| AD \| GAD \|\n\|[-| ]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert found is not None
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()]
    return {cells[0]: cells[1:] for cells in rows}


def test_the_checks_are_of_rows_of_the_table() -> None:
    assert CHECKS.keys() <= table().keys()


def test_the_page_names_the_options_that_are_refused() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Refused options")[2]
    named = {option.replace("-", "_") for option in re.findall(r"^\| `--([\w-]+)`", section, re.MULTILINE)}
    limited = MultiDomainTranslationTask.limits.keys() | MultiDomainLanguageModelingTask.limits.keys()
    assert named == limited | {"num_shards", "checkpoint_activations"}


@pytest.mark.parametrize("system", toy_systems.ARCHITECTURES)
@pytest.mark.parametrize("use", CHECKS)
def test_options_work_or_are_refused_as_the_page_says(
    world: World, use: str, system: str, capsys: pytest.CaptureFixture
) -> None:
    expected = table()[use][list(toy_systems.ARCHITECTURES).index(system)]
    if expected == "works":
        CHECKS[use](world, system, capsys)
        return
    assert expected == "refused"
    with pytest.raises(InputError) as caught:
        CHECKS[use](world, system, capsys)
    assert "\n" not in str(caught.value)

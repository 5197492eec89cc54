"""Perplexities in this process are fairseq-eval-lm's, and a formula's."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import eval_lm as fairseq_eval_lm

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.perplexity import LanguageModelScorer
from tests import toy, toy_text
from tests.recipes.small_lm import make_checkpoint


@pytest.fixture(scope="module")
def checkpoint(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hierarchical adapters whose nodes differ, as a checkpoint."""
    return save_model(text, tmp_path_factory.mktemp("model"), toy_text.HIER)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_text.make_text(tmp_path_factory.mktemp("text"))


def save_model(text: Path, folder: Path, arch: str) -> Path:
    options = {"tree": toy_text.write_tree(folder / "tree.json")} if arch == toy_text.HIER else {}
    return make_checkpoint(folder / "model.pt", text, arch, tokens_per_sample=toy_text.BLOCK, **options)


def scorer_of(checkpoint: Path, text: Path) -> LanguageModelScorer:
    return LanguageModelScorer.load(checkpoint, text, tokens_per_sample=toy_text.BLOCK, max_tokens=32, cpu=True)


def eval_lm(checkpoint: Path, text: Path, *extra: str) -> float:
    """The perplexity that fairseq-eval-lm finds."""
    args = options.parse_args_and_arch(options.get_eval_lm_parser(), [
        str(text), "--user-dir", toy.USER_DIR, "--cpu", "--path", str(checkpoint), "--task",
        "multi_domain_language_modeling", "--tokens-per-sample", str(toy_text.BLOCK), "--max-tokens", "32",
        "--num-workers", "0", *extra,
    ])  # fmt: skip
    return 2 ** float(fairseq_eval_lm.main(convert_namespace_to_omegaconf(args))["loss"])


@pytest.mark.parametrize(("paths", "routing"), [(["law"], []), (["med", "sub"], ["--paths", "med,sub"])])
def test_agrees_with_fairseq_eval_lm(checkpoint: Path, text: Path, paths: list[str], routing: list[str]) -> None:
    scorer = scorer_of(checkpoint, text)
    found = scorer.score(scorer.batches("law", "test"), scorer.over(paths))[0]
    theirs = eval_lm(checkpoint, text, "--gen-subset", "test:law", *routing)
    assert math.exp(found.nats / found.tokens) == pytest.approx(theirs, rel=1e-4)


@pytest.mark.slow
def test_agrees_with_fairseq_eval_lm_without_adapters(text: Path, tmp_path: Path) -> None:
    plain = save_model(text, tmp_path, toy_text.PLAIN)
    scorer = scorer_of(plain, text)
    assert scorer.tree is None
    found = scorer.score(scorer.batches("med", "test"))[0]
    theirs = eval_lm(plain, text, "--gen-subset", "test:med")
    assert math.exp(found.nats / found.tokens) == pytest.approx(theirs, rel=1e-4)


def test_every_token_counts_once(checkpoint: Path, text: Path) -> None:
    scorer = scorer_of(checkpoint, text)
    scorer.task.load_dataset("test:law")
    found = scorer.score(scorer.batches("law", "test"), scorer.over(["law"]), [0, 3])
    sizes = scorer.task.dataset("test:law").sizes
    assert found[0].tokens == sizes.sum()
    assert found[3].tokens == (sizes - 3).clip(min=0).sum()
    assert 0 < found[3].nats < found[0].nats


def test_batches_make_no_difference(checkpoint: Path, text: Path) -> None:
    small, large = (  # the smaller has no room for a block
        LanguageModelScorer.load(checkpoint, text, tokens_per_sample=toy_text.BLOCK, max_tokens=size, cpu=True)
        for size in (3, 256)
    )
    found, expected = (each.score(each.batches("sub", "test"), each.over(["sub"]))[0] for each in (small, large))
    assert found.tokens == expected.tokens
    assert found.nats == pytest.approx(expected.nats, rel=1e-5)


def test_too_long_blocks_are_refused(checkpoint: Path, text: Path) -> None:
    with pytest.raises(InputError, match="tokens-per-sample: 100000 is more than"):
        LanguageModelScorer.load(checkpoint, text, tokens_per_sample=100_000, cpu=True)

"""Perplexities in this process are fairseq-eval-lm's, and a formula's."""

import math
from functools import partial
from pathlib import Path

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import eval_lm as fairseq_eval_lm

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.perplexity import LanguageModelScorer
from tests import toy, toy_text
from tests.experiments.small_lm import make_checkpoint


@pytest.fixture(scope="module")
def models(text: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A plain model, and one with hierarchical adapters whose nodes differ, as checkpoints."""
    folder, size = tmp_path_factory.mktemp("models"), {"tokens_per_sample": toy_text.BLOCK}
    tree = toy_text.write_tree(folder / "tree.json")
    return {
        "plain": make_checkpoint(folder / "plain.pt", text, toy_text.PLAIN, **size),
        "tree": make_checkpoint(folder / "tree.pt", text, toy_text.HIER, tree=tree, **size),
    }


load_scorer = partial(LanguageModelScorer.load, tokens_per_sample=toy_text.BLOCK, cpu=True)


def eval_lm(checkpoint: Path, text: Path, *extra: str) -> float:
    """The perplexity that fairseq-eval-lm finds."""
    args = options.parse_args_and_arch(options.get_eval_lm_parser(), [
        str(text), "--user-dir", toy.USER_DIR, "--cpu", "--path", str(checkpoint), "--task",
        "multi_domain_language_modeling", "--tokens-per-sample", str(toy_text.BLOCK), "--max-tokens", "32",
        "--num-workers", "0", *extra,
    ])  # fmt: skip
    return 2 ** float(fairseq_eval_lm.main(convert_namespace_to_omegaconf(args))["loss"])


@pytest.mark.parametrize(
    ("model", "paths", "routing"),
    [("tree", ["law"], []), ("tree", ["med", "sub"], ["--paths", "med,sub"]), ("plain", [], [])],
)
def test_agrees_with_fairseq_eval_lm(
    models: dict[str, Path], text: Path, model: str, paths: list[str], routing: list[str]
) -> None:
    scorer = load_scorer(models[model], text, max_tokens=32)
    found = scorer.score(scorer.batches("law", "test"), paths)
    theirs = eval_lm(models[model], text, "--gen-subset", "test:law", *routing)
    assert math.exp(found.nats / found.tokens) == pytest.approx(theirs, rel=1e-4)


def test_every_token_counts_once_in_batches_of_any_size(models: dict[str, Path], text: Path) -> None:
    results = []
    for size in (3, 256):  # the smaller has no room for a block
        scorer = load_scorer(models["tree"], text, max_tokens=size)
        results.append(scorer.score(scorer.batches("law", "test"), ["law"]))
    small, large = results
    sizes = scorer.task.dataset("test:law").sizes
    assert small.tokens == large.tokens == sizes.sum()
    assert small.nats == pytest.approx(large.nats, rel=1e-5)
    with pytest.raises(InputError, match="tokens-per-sample: 100000 is too long"):
        load_scorer(models["tree"], text, tokens_per_sample=100_000)

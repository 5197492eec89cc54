import json
import math
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.logging import metrics

from fairseq_ext.base.domain_tree import read_tree
from fairseq_ext.base.errors import InputError
from tests import toy, toy_text

PAD = 1


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_text.write_tree(tmp_path_factory.mktemp("tree") / "tree.json")


def loaded(text: Path, tree: Path | None, *extra: str) -> tuple[Any, Any]:
    """Task and model, whose weights are the same whatever the options."""
    options = [*extra, "--tree", str(tree)] if tree else list(extra)
    task, cfg = toy_text.make_task(text, *options, arch=toy_text.HIER if tree else toy_text.PLAIN)
    model = toy.make_model(task, cfg)
    toy.randomise_adapters(model)
    return task, model


def weights_of(task: Any, split: str = "test") -> list[list[float]]:
    """The routing weights of each domain of a split, in order."""
    task.load_dataset(split)
    return [corpus.node_weights.tolist() for corpus in task.datasets[split].corpora]


# Blocks


def dataset_of(text: Path, tree: Path | None, split: str) -> Any:
    task, _ = loaded(text, tree)
    task.load_dataset(split, combine=split == "train")  # as fairseq's trainer
    return task.datasets[split]


def test_blocks_are_the_text_and_never_of_two_domains(text: Path) -> None:
    dataset = dataset_of(text, None, "test")
    dictionary = toy_text.make_dictionary()
    targets = [dataset[i]["target"] for i in range(len(dataset))]
    for domain_id, name in enumerate(toy_text.DOMAINS):
        own = [target for i, target in enumerate(targets) if dataset[i]["domain_id"] == domain_id]
        assert sum(target.eq(dictionary.eos()).sum() for target in own) == 7  # all its lines
        assert all(len(target) == toy_text.BLOCK for target in own[:-1])
        words = {dictionary[int(token)].rstrip("0123456789") for target in own for token in target}
        assert words <= {"all", name, "</s>"}


def test_mixed_batches_carry_each_rows_own_path(text: Path, tree: Path) -> None:
    dataset, paths = dataset_of(text, tree, "train"), read_tree(tree)
    batch = dataset.collater([dataset[index] for index in reversed(range(len(dataset)))])
    assert batch["domain_ids"].tolist() == dataset.domain_of(batch["id"].numpy()).tolist()
    for row, index in enumerate(batch["id"].tolist()):
        name, target = toy_text.DOMAINS[int(batch["domain_ids"][row])], batch["target"][row]
        np.testing.assert_array_equal(batch["net_input"]["node_weights"][row], paths.path_weights([name]))
        assert target[target != PAD].tolist() == dataset[index]["target"].tolist()


# Validation


def validate(task: Any, model: Any, split: str = "valid") -> dict[str, float]:
    task.load_dataset(split)
    dataset = task.datasets[split]
    criterion = CrossEntropyCriterion(task, sentence_avg=False)
    logs = [
        task.valid_step(dataset.collater([dataset[i] for i in batch]), model, criterion)[2]
        for batch in dataset.batch_by_size(dataset.ordered_indices(), max_sentences=2)
    ]
    with metrics.aggregate(new_root=True) as shown:
        for log in logs:
            task.reduce_metrics([log], criterion)
    return shown.get_smoothed_values()


def test_validation_logs_the_perplexity_of_every_domain(text: Path, tree: Path) -> None:
    task, model = loaded(text, tree)
    values = validate(task, model)
    for name in toy_text.DOMAINS:
        task.load_dataset(f"valid:{name}")
        own = task.datasets[f"valid:{name}"]
        batch = own.collater([own[i] for i in range(len(own))])
        with torch.no_grad():
            lprobs = model(**batch["net_input"])[0].log_softmax(-1)
        scored = batch["target"].ne(PAD)
        nll = -lprobs.gather(2, batch["target"].unsqueeze(2)).squeeze(2)[scored].mean().item()
        assert values[f"loss_{name}"] == pytest.approx(nll / math.log(2), abs=1e-3)
        assert values[f"ppl_{name}"] == pytest.approx(math.exp(nll), rel=1e-3)
    for measure in ("ppl", "loss"):
        of_each = [values[f"{measure}_{name}"] for name in toy_text.DOMAINS]
        assert len(set(of_each)) == 3
        assert values[f"{measure}_avg"] == pytest.approx(sum(of_each) / 3, abs=1e-2)


# Routing

THIRD = float(np.float32(1 / 3))
LAW, MED, SUB = [THIRD, THIRD, THIRD, 0, 0], [THIRD, THIRD, 0, THIRD, 0], [0.5, 0, 0, 0, 0.5]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", [LAW, MED, SUB]),
        ("--domain sub", [SUB] * 3),
        ("--paths none", [[0] * 5] * 3),
        ("--paths law,sub", [np.mean([LAW, SUB], axis=0)] * 3),
        ("--paths all", [np.mean([LAW, MED, SUB], axis=0)] * 3),
        ("--paths FILE", [SUB, LAW, [0.5, 0.5, 0, 0, 0]]),
    ],
)
def test_text_is_routed_as_options_say(options: str, expected: Any, text: Path, tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "paths.json"
    file.write_text(json.dumps({"law": ["sub"], "med": ["law"], "sub": ["science"]}))
    task, _ = loaded(text, tree, *options.replace("FILE", str(file)).split())
    np.testing.assert_allclose(weights_of(task), expected, atol=1e-7)


# Generation


def generate(task: Any, model: Any, lines: list[str], beam: int = 3) -> list[dict]:
    """Go on from lines the way fairseq-interactive does; the best hypothesis of each."""
    tokens, lengths = task.get_interactive_tokens_and_lengths(lines, lambda line: line)
    dataset = task.build_dataset_for_inference(tokens, lengths)
    batch = dataset.collater([dataset[i] for i in range(len(lines))])
    generator = task.build_generator([model], Namespace(beam=beam, max_len_b=12, unkpen=1e9))
    sample = {"net_input": {k: batch["net_input"][k] for k in ("src_tokens", "src_lengths")}}
    return [hypotheses[0] for hypotheses in task.inference_step(generator, [model], sample)]


def forced(model: Any, hypothesis: dict, weights: torch.Tensor) -> torch.Tensor:
    """The scores of a hypothesis in one pass, without a cache."""
    target = hypothesis["tokens"]
    source = torch.cat([target[-1:], target[:-1]])  # both ends are </s>
    with torch.no_grad():
        lprobs = model(source.unsqueeze(0), node_weights=weights.unsqueeze(0))[0][0].log_softmax(-1)
    return lprobs.gather(1, target.unsqueeze(1)).squeeze(1)


PROMPTS = ["law1 law2 all3", "sub4", "med5 med6 med7 med8", "", "sub1 all2"]


def test_generation_goes_over_the_given_paths(text: Path, tree: Path) -> None:
    task, model = loaded(text, tree, "--paths", "law,sub")
    weights = torch.from_numpy(task.tree.path_weights(["law", "sub"]))
    for prompt, hypothesis in zip(PROMPTS, generate(task, model, PROMPTS), strict=True):
        words = task.dictionary.string(hypothesis["tokens"])
        assert words.startswith(prompt)
        torch.testing.assert_close(hypothesis["positional_scores"], forced(model, hypothesis, weights))


def test_typed_text_needs_a_domain(text: Path, tree: Path) -> None:
    task, model = loaded(text, tree)
    with pytest.raises(InputError, match="typed text has no domain.*--domain"):
        generate(task, model, ["law1"])
    plain, base = loaded(text, None)
    assert generate(plain, base, ["law1"])


def test_a_topic_is_forced(text: Path) -> None:
    for extra, topic in (([], None), (["--topic", "2"], 2)):
        task, cfg = toy_text.make_task(text, "--num-topics", "2", *extra, arch="transformer_lm_topic_tiny")
        assert toy.make_model(task, cfg).decoder.forced_topic == topic


# Bad input


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (("--domain", "law", "--paths", "all"), "--domain and --paths cannot"),
        (("--domain", "news"), "domain news: not in the model's tree, which has law, med, sub"),
        (("--paths", "law,news"), "--paths law,news: 'news'"),
        (("--topic", "1"), "--topic 1: the model has no such topic"),
    ],
)
def test_options_that_do_not_fit(text: Path, tree: Path, options: tuple[str, ...], match: str) -> None:
    with pytest.raises(InputError, match=match):
        loaded(text, tree, *options)[0].load_dataset("test")


def test_data_that_do_not_fit(tmp_path: Path, tree: Path) -> None:
    text = toy_text.make_text(tmp_path, ["law", "news"], (9, 9))
    with pytest.raises(InputError, match="domain news: not in the model's tree, .*--paths NAMES"):
        loaded(text, tree)[0].load_dataset("test")
    assert weights_of(loaded(text, tree)[0], "test:law") == [LAW]
    assert weights_of(loaded(text, tree, "--domain", "med")[0]) == [MED, MED]
    (text / "news/test.idx").unlink()
    with pytest.raises(InputError, match=r"news/test\.bin: not found; .*remove domain news from domains\.txt"):
        loaded(text, tree)[0].load_dataset("test")

"""Batches of several domains; and epochs in order of length, as a plain sort of all sizes gives it."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ext.data.multi_domain_dataset import DomainCorpus, MultiDomainDataset, side_sizes
from tests import toy


def load(data: Path, split: str, *extra: str, arch: str = "transformer_domain_adapter_tiny") -> MultiDomainDataset:
    task, args = toy.make_task(data, *extra, arch=arch)
    toy.make_model(task, args)
    task.load_dataset(split, combine=split == "train")  # as fairseq's trainer
    return task.datasets[split]


@pytest.mark.parametrize(
    ("mode", "expected"), [("none", [24, 12, 6]), ("max", [24, 24, 24]), ("temperature", [24, 17, 12])]
)
def test_upsampling_fills_an_epoch(data: Path, mode: str, expected: list[int]) -> None:
    dataset = load(data, "train", "--upsampling", mode, "--upsampling-temperature", "2")
    assert np.bincount(dataset.domain_of(np.arange(len(dataset)))).tolist() == expected


def test_rows_keep_their_domains_when_the_batch_is_sorted(data: Path, teacher: Path) -> None:
    dataset = load(data, "train", "--teacher-dir", str(teacher))
    order = np.random.default_rng(0).permutation(len(dataset))[:30]
    batch = dataset.collater([dataset[i] for i in order])
    assert batch["id"].tolist() != order.tolist()  # fairseq did sort
    for row, index in enumerate(batch["id"].tolist()):
        corpus, position = dataset.locate(index)
        source = batch["net_input"]["src_tokens"][row]
        assert source[source != 1].tolist() == corpus.examples[position]["source"].tolist()
        assert batch["domain_ids"][row] == corpus.domain_id == batch["net_input"]["domain_ids"][row]
        np.testing.assert_array_equal(batch["teacher_probs"][row].numpy(), corpus.labels[position])


def test_tags_open_the_source_and_count_as_length(data: Path) -> None:
    plain = load(data, "test", arch="transformer_tiny")
    tagged = load(data, "test", "--domain-tags", arch="transformer_tiny")
    for index in (0, 5, 11):
        tag = toy.make_dictionary().index(f"<domain:{toy.DOMAINS[index // 4]}>")
        assert tagged[index]["source"].tolist() == [tag] + plain[index]["source"].tolist()
        assert tagged.size(index)[0] == len(tagged[index]["source"])


def test_training_is_routed_by_the_true_domain(data: Path, teacher: Path) -> None:
    dataset = load(data, "train", "--teacher-dir", str(teacher), "--domain-source", "classifier-soft")
    assert not any("routed_weights" in dataset[i] for i in range(len(dataset)))
    dataset = load(data, "train", "--teacher-dir", str(teacher), "--domain-source", "classifier")
    assert all(dataset[i]["routed_id"] == dataset[i]["domain_id"] for i in range(len(dataset)))


def test_cached_files_are_read_ahead(data: Path, tmp_path: Path) -> None:
    cached = load(toy.make_data(tmp_path, impl="cached"), "train", "--dataset-impl", "cached")
    mapped = load(data, "train")
    assert cached.supports_prefetch > mapped.supports_prefetch
    indices = [24, 48, *np.random.default_rng(0).permutation(len(mapped))[:9]]  # the first two begin domains
    cached.prefetch(indices)
    for index, side in itertools.product(indices, ("source", "target")):
        assert cached[index][side].tolist() == mapped[index][side].tolist()


# Lengths

COUNTS = (700, 90, 31)


class Lengths(list):
    """Examples of which only the lengths matter."""

    @property
    def sizes(self) -> np.ndarray:
        return np.array(self)


def corpora(longest: int, sides: int = 2) -> list[Any]:
    rng = np.random.default_rng(longest)
    shapes = [(count, sides)[:sides] for count in COUNTS]
    return [DomainCorpus(Lengths(rng.integers(1, longest + 1, shape)), n) for n, shape in enumerate(shapes)]  # type: ignore[arg-type]


def plain_epoch(sizes: np.ndarray, repetitions: list[float] | None, seed: int, epoch: int) -> tuple[Any, Any]:
    """Table and order as they are defined: in 64 bits, side by side."""
    bounds = np.cumsum([0, *COUNTS])
    if repetitions is None:
        rows, order = np.arange(len(sizes)), np.arange(len(sizes))
    else:
        rng, drawn = np.random.default_rng([seed, epoch]), []
        for start, stop, times in zip(bounds[:-1], bounds[1:], repetitions, strict=True):
            part = round((times - int(times)) * (stop - start))
            drawn += [np.arange(start, stop)] * int(times) + [rng.permutation(np.arange(start, stop))[:part]]
        rows = np.concatenate(drawn)
        order = np.random.default_rng([seed, epoch, 1]).permutation(len(rows))
    for side in reversed(range(sizes.shape[1])):
        order = order[np.argsort(sizes[rows][order, side], kind="stable")]
    return rows, order


@pytest.mark.parametrize(("longest", "sides"), [(3, 1), (3, 2), (70_000, 2)])
@pytest.mark.parametrize("repetitions", [None, [1.0, 7.77, 22.58], [0.3, 0.0, 3.4]])
def test_order_is_that_of_a_plain_sort(longest: int, sides: int, repetitions: list[float] | None) -> None:
    examples = corpora(longest, sides)
    sizes = np.concatenate([each.examples.sizes for each in examples]).reshape(sum(COUNTS), -1)
    dataset: MultiDomainDataset[Any] = MultiDomainDataset(examples, repetitions, seed=5)
    for epoch in (1, 3, 2, 3):  # the last as if resumed
        dataset.set_epoch(epoch)
        rows, order = plain_epoch(sizes, repetitions, 5, epoch)
        np.testing.assert_array_equal(dataset.rows, rows)
        np.testing.assert_array_equal(dataset.ordered_indices(), order)
        np.testing.assert_array_equal(dataset.sizes, sizes[rows])
        np.testing.assert_array_equal(dataset.num_tokens_vec(order), sizes[rows][order].max(axis=1))


def test_too_long_is_what_passes_a_limit_on_its_side() -> None:
    longest = 300
    dataset: MultiDomainDataset[Any] = MultiDomainDataset(corpora(longest), [1.0, 2.5, 3.0])
    order = dataset.ordered_indices()
    for limits in ((longest // 2, longest), (longest, longest // 3), (longest, longest), longest // 2, float("inf")):
        fits = (dataset.sizes[order] <= np.array(limits)).all(axis=1)
        kept, ignored = dataset.filter_indices_by_size(order, limits)
        np.testing.assert_array_equal(kept, order[fits])
        assert ignored == order[~fits].tolist()


def test_lengths_are_kept_in_the_smallest_type() -> None:
    sizes = [each.examples.sizes for each in corpora(255)]
    assert side_sizes(sizes).dtype == np.uint8
    np.testing.assert_array_equal(side_sizes(sizes, opening_tokens=1).T, np.concatenate(sizes) + [1, 0])

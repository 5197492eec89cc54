"""Epochs in order of length, as a plain sort of all sizes gives it."""

from typing import Any

import numpy as np
import pytest

from fairseq_ext.data.domain_pairs import DomainPairs
from fairseq_ext.data.multi_domain_dataset import DomainCorpus, MultiDomainDataset, side_sizes

COUNTS = (700, 90, 31)


class Lengths:
    def __init__(self, sizes: np.ndarray) -> None:
        self.sizes = sizes

    def __len__(self) -> int:
        return len(self.sizes)


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


@pytest.mark.parametrize("longest", [3, 70_000])
@pytest.mark.parametrize("sides", [1, 2])
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


def test_a_tag_makes_sources_longer_whatever_holds_their_lengths() -> None:
    examples = corpora(255)
    assert side_sizes([each.examples.sizes for each in examples]).dtype == np.uint8
    sizes = np.concatenate([each.examples.sizes for each in examples])
    np.testing.assert_array_equal(DomainPairs(examples, tags=[7, 8, 9]).sizes, sizes + [1, 0])

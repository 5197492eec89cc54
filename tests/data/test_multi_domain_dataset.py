from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.data.multi_domain_dataset import MultiDomainDataset
from tests import toy


def load(data: Path, split: str, *extra: str, arch: str = "transformer_domain_adapter_tiny") -> MultiDomainDataset:
    task, args = toy.make_task(data, *extra, arch=arch)
    toy.make_model(task, args)
    task.load_dataset(split, combine=split == "train")  # as fairseq's trainer
    return task.datasets[split]


def visits(dataset: MultiDomainDataset) -> Counter:
    return Counter(dataset.domain_of(np.arange(len(dataset))).tolist())


@pytest.mark.parametrize(
    ("mode", "expected"), [("none", [24, 12, 6]), ("max", [24, 24, 24]), ("temperature", [24, 17, 12])]
)
def test_upsampling_fills_an_epoch(data: Path, mode: str, expected: list[int]) -> None:
    dataset = load(data, "train", "--upsampling", mode, "--upsampling-temperature", "2")
    assert [visits(dataset)[d] for d in range(3)] == expected


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


@pytest.mark.parametrize("split", ["train", "test"])
def test_no_sentence_is_left_out_of_the_last_batch(data: Path, split: str) -> None:
    dataset = load(data, split)
    batches = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=100, required_batch_size_multiple=8)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(dataset)))


def test_tags_open_the_source_and_count_as_length(data: Path) -> None:
    plain = load(data, "test", arch="transformer_tiny")
    tagged = load(data, "test", "--domain-tags", arch="transformer_tiny")
    dictionary = toy.make_dictionary()
    for index in (0, 5, 11):
        tag = dictionary.index(f"<domain:{toy.DOMAINS[index // 4]}>")
        assert tagged[index]["source"].tolist() == [tag] + plain[index]["source"].tolist()
        assert tagged.size(index)[0] == plain.size(index)[0] + 1 == len(tagged[index]["source"])


def test_training_is_routed_by_the_true_domain(data: Path, teacher: Path) -> None:
    dataset = load(data, "train", "--teacher-dir", str(teacher), "--domain-source", "classifier-soft")
    assert not any("routed_weights" in dataset[i] for i in range(len(dataset)))
    dataset = load(data, "train", "--teacher-dir", str(teacher), "--domain-source", "classifier")
    assert all(dataset[i]["routed_id"] == dataset[i]["domain_id"] for i in range(len(dataset)))


def test_cached_files_are_read_ahead(tmp_path: Path) -> None:
    cached = load(toy.make_data(tmp_path / "cached", impl="cached"), "train", "--dataset-impl", "cached")
    mapped = load(toy.make_data(tmp_path / "mmap"), "train")
    assert cached.supports_prefetch
    assert not mapped.supports_prefetch
    indices = np.random.default_rng(0).permutation(len(mapped))[:9]
    cached.prefetch(indices.tolist())
    for index in indices:
        assert cached[index]["source"].tolist() == mapped[index]["source"].tolist()
        assert cached[index]["target"].tolist() == mapped[index]["target"].tolist()

from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.base.domain_tree import read_tree
from fairseq_ext.data.domain_blocks import DomainBlocks
from tests import toy_text


def load(text: Path, split: str, *extra: str, arch: str = toy_text.PLAIN) -> DomainBlocks:
    task, model = toy_text.make_task(text, *extra, arch=arch)
    task.build_model(model)
    task.load_dataset(split, combine=split == "train")  # as fairseq's trainer
    return task.datasets[split]


def collate(dataset: DomainBlocks, indices: Any) -> dict[str, Any]:
    return dataset.collater([dataset[int(index)] for index in indices])


def test_blocks_are_the_text_and_never_of_two_domains(text: Path) -> None:
    dataset = load(text, "test")
    dictionary = toy_text.make_dictionary()
    targets = [dataset[i]["target"] for i in range(len(dataset))]
    for domain_id, name in enumerate(toy_text.DOMAINS):
        own = [target for i, target in enumerate(targets) if dataset[i]["domain_id"] == domain_id]
        assert sum(target.eq(dictionary.eos()).sum() for target in own) == 7  # all its lines
        assert all(len(target) == toy_text.BLOCK for target in own[:-1])
        words = {dictionary[int(token)].rstrip("0123456789") for target in own for token in target}
        assert words <= {"all", name, "</s>"}


def test_mixed_batches_carry_each_rows_own_path(text: Path, tmp_path: Path) -> None:
    path = toy_text.write_tree(tmp_path / "tree.json")
    dataset, tree = load(text, "train", "--tree", str(path), arch=toy_text.HIER), read_tree(path)
    batch = collate(dataset, reversed(range(len(dataset))))
    assert batch["domain_ids"].tolist() == dataset.domain_of(batch["id"].numpy()).tolist()
    for row, index in enumerate(batch["id"].tolist()):
        name, target = toy_text.DOMAINS[int(batch["domain_ids"][row])], batch["target"][row]
        np.testing.assert_array_equal(batch["net_input"]["node_weights"][row], tree.path_weights([name]))
        assert target[target != 1].tolist() == dataset[index]["target"].tolist()

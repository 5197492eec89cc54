from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.path_chooser import PathChooser
from fairseq_ext.tasks import sequence_paths
from fairseq_ext.tasks.sequence_paths import SequencePaths, StatesOnce
from tests import toy, toy_text

PAD = 1
TOKENS = torch.randint(4, 30, (24, 7), generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("sequence-paths")
    made = toy_text.make_task(toy_text.make_text(root), "--tree", str(toy_text.write_tree(root / "tree.json")))
    model = toy.make_model(*made)
    toy.randomise_adapters(model)
    return model


def load(model: Any, directory: Path, num_paths: int = 1, num_tokens: int = 0, **options: Any) -> SequencePaths:
    return SequencePaths.load(directory, model, num_paths=num_paths, num_tokens=num_tokens, padding_idx=PAD, **options)


def test_the_base_chooses_for_every_row_by_itself(model: Any, tmp_path: Path) -> None:
    """By hand: the states without adapters, averaged, and the clusters' most probable leaves."""
    paths, tokens = load(model, toy_text.write_clusters(tmp_path), num_paths=2), TOKENS
    with torch.no_grad():
        states = model(tokens, node_weights=torch.zeros(len(tokens), 5), features_only=True)[0].mean(1)
    leaves = PathChooser.load(tmp_path).leaves(states.numpy(), 2)
    expected = np.stack([model.tree.path_weights(names) for names in leaves])
    assert len(np.unique(expected, axis=0)) > 1
    padded = torch.cat([tokens, torch.full((len(tokens), 3), PAD)], dim=1)
    for found in (paths(tokens), paths(padded), torch.cat([paths(row.unsqueeze(0)) for row in tokens])):
        np.testing.assert_array_equal(found.numpy(), expected)


def test_the_base_reads_once_for_all_numbers_of_paths_and_tokens(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy_text.write_clusters(tmp_path)
    tokens, states, read = TOKENS, StatesOnce((0, 3)), []
    ways = [(k, n) for k in (1, 2) for n in (0, 3)]
    paths = [load(model, tmp_path, k, n, states=states) for k, n in ways]
    expected = [load(model, tmp_path, k, n)(tokens) for k, n in ways]
    whole = sequence_paths.prefix_states
    monkeypatch.setattr(sequence_paths, "prefix_states", lambda *given: read.append(1) or whole(*given))
    assert all(torch.equal(each(tokens), other) for each, other in zip(paths, expected, strict=True))
    assert len(read) == 1
    paths[0](tokens.view(-1, 1))  # the same numbers in another form are another text
    assert len(read) == 2


def test_clusters_of_another_tree_are_refused(model: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'news' .* law, med, sub"):
        load(model, toy_text.write_clusters(tmp_path, names=["law", "news"]))

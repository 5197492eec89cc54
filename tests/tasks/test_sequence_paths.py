from __future__ import annotations

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


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("sequence-paths")
    task, cfg = toy_text.make_task(toy_text.make_text(root), "--tree", str(toy_text.write_tree(root / "tree.json")))
    torch.manual_seed(1)
    model = task.build_model(cfg).eval()
    toy.randomise_adapters(model)
    return model


def load(model: Any, directory: Path, num_paths: int = 1, num_tokens: int = 0, **clusters: Any) -> SequencePaths:
    toy_text.write_clusters(directory, **clusters)
    return SequencePaths.load(directory, model, num_paths=num_paths, num_tokens=num_tokens, padding_idx=PAD)


def some_tokens(rows: int = 24) -> torch.Tensor:
    return torch.randint(4, 30, (rows, 7), generator=torch.Generator().manual_seed(3))


def test_every_row_chooses_by_itself(model: Any, tmp_path: Path) -> None:
    paths = load(model, tmp_path)
    tokens = some_tokens()
    weights = paths(tokens)
    assert len(weights.unique(dim=0)) > 1
    alone = torch.cat([paths(row.unsqueeze(0)) for row in tokens])
    assert torch.equal(weights, alone)
    padded = torch.cat([tokens, torch.full((len(tokens), 3), PAD)], dim=1)
    assert torch.equal(paths(padded), weights)


def test_the_base_chooses_and_not_the_adapters(model: Any, tmp_path: Path) -> None:
    """By hand: the states without adapters, averaged, and the clusters' most probable leaves."""
    paths = load(model, tmp_path, num_paths=2)
    tokens = some_tokens(5)
    with torch.no_grad():
        states = model.extract_features(tokens, node_weights=torch.zeros(5, 5))[0].mean(1)
    leaves = PathChooser.load(tmp_path).leaves(states.numpy(), 2)
    expected = np.stack([model.tree.path_weights(names) for names in leaves])
    np.testing.assert_array_equal(paths(tokens).numpy(), expected)


def test_the_base_reads_once_for_all_numbers_of_paths_and_tokens(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy_text.write_clusters(tmp_path)
    tokens, states, read = some_tokens(), StatesOnce((0, 3)), []
    ways = [(k, n) for k in (1, 2) for n in (0, 3)]
    paths = [
        SequencePaths.load(tmp_path, model, num_paths=k, num_tokens=n, padding_idx=PAD, states=states) for k, n in ways
    ]
    expected = [load(model, tmp_path, num_paths=k, num_tokens=n)(tokens) for k, n in ways]
    whole = sequence_paths.prefix_states
    monkeypatch.setattr(sequence_paths, "prefix_states", lambda *given: read.append(1) or whole(*given))
    assert all(torch.equal(each(tokens), other) for each, other in zip(paths, expected, strict=True))
    assert len(read) == 1
    paths[0](tokens.view(-1, 1))  # the same numbers in another form are another text
    assert len(read) == 2


def test_what_does_not_fit_is_one_line(model: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="4 paths: the induced tree has 3 leaves"):
        load(model, tmp_path, num_paths=4)
    with pytest.raises(InputError, match="'news', the model's tree has law, med, sub"):
        load(model, tmp_path, names=["law", "news"])
    with pytest.raises(InputError, match="width 16, these are of width 32"):
        load(model, tmp_path, width=16)(some_tokens(2))
    with pytest.raises(InputError, match=r"clusters\.npz: not found"):
        SequencePaths.load(tmp_path / "no", model, num_paths=1, num_tokens=0, padding_idx=PAD)

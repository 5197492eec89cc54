"""Tasks alone: out of one checkpoint, into another, and what is refused on the way."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from fairseq_ext.base.errors import InputError
from fairseq_ext.classifiers.task_adapters import (
    MANIFEST_FILE,
    WEIGHTS_FILE,
    base_fingerprint,
    load_task,
    load_task_model,
    read_checkpoint,
    save_task,
)
from tests import toy_tasks
from tests.toy_tasks import PLAIN, logits, make_base, make_model, randomise, started_from, train, write_checkpoint
from tests.verbs import verb


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, and checkpoints of the tasks sst2, and trec after it; another base; the dictionary."""
    folder = tmp_path_factory.mktemp("tasks")
    base = make_base()
    write_checkpoint(folder / "base.pt", base, PLAIN)
    write_checkpoint(folder / "other.pt", make_base(seed=4), PLAIN)
    first = randomise(started_from(make_model(), base.state_dict()))
    write_checkpoint(folder / "sst2.pt", first)
    second = started_from(make_model("trec", 3, "abcdef", num_classes=6, bottleneck_dim=5), first.state_dict())
    train(second, "trec", steps=1)
    write_checkpoint(folder / "both.pt", second)
    dictionary = toy_tasks.make_dictionary()
    dictionary.symbols.pop()  # <mask> is not in the file
    dictionary.save(str(folder / "dict.txt"))
    return folder


@pytest.fixture
def saved(world: Path, tmp_path: Path) -> Path:
    save_task(world / "both.pt", "sst2", tmp_path / "sst2")
    return tmp_path / "sst2"


assert_equal = partial(torch.testing.assert_close, rtol=0, atol=0)


def weights(path: Path) -> dict[str, torch.Tensor]:
    return read_checkpoint(path)["model"]


def test_a_saved_task_says_what_it_is(world: Path, saved: Path) -> None:
    manifest = json.loads((saved / MANIFEST_FILE).read_text())
    norms, head = 5 * 2 * 32, 32 * 32 + 32 + 3 * 32 + 3
    assert manifest.pop("parameters") == 4 * (2 * 64 * 32 + 32 + 64) + norms + head
    assert len(manifest.pop("sha256")) == 64
    assert manifest == {
        "task": "sst2", "tuning": "adapters", "bottleneck_dim": 64, "activation_fn": "gelu", "num_classes": 3,
        "labels": ["bad", "good", "mixed"], "base_sha256": base_fingerprint(weights(world / "base.pt")),
    }  # fmt: skip
    assert set(load_file(saved / WEIGHTS_FILE)) == {k for k in weights(world / "both.pt") if ".sst2." in k}


def test_another_base_and_files_that_do_not_belong_together_are_refused(
    world: Path, saved: Path, tmp_path: Path
) -> None:
    def refused(base: str, named: Path) -> None:
        with pytest.raises(InputError, match=f"^{named}: "):
            load_task(saved, world / base, tmp_path / "out.pt")

    refused("other.pt", world / "other.pt")
    manifest = json.loads((saved / MANIFEST_FILE).read_text())
    (saved / MANIFEST_FILE).write_text(json.dumps(manifest | {"task": "trec"}))
    refused("base.pt", saved / WEIGHTS_FILE)
    (saved / MANIFEST_FILE).write_text(json.dumps(manifest))
    changed = {k: v + 1e-6 * ("norms.0.bias" in k) for k, v in load_file(saved / WEIGHTS_FILE).items()}
    save_file(changed, saved / WEIGHTS_FILE)
    refused("base.pt", saved / WEIGHTS_FILE)
    assert not (tmp_path / "out.pt").exists()


@pytest.mark.slow
def test_the_tasks_commands(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verb("tasks")(["list", str(world / "both.pt")])
    assert capsys.readouterr().out == (
        "sst2: adapters of width 64, 18,243 parameters, bad, good, mixed\n"
        "trec: adapters of width 5, 3,002 parameters, a, b, c, d, e, f\n"
    )
    verb("tasks")(["save", str(world / "both.pt"), "trec", str(tmp_path / "trec")])
    verb("tasks")(["remove", str(world / "both.pt"), "trec", str(tmp_path / "one.pt")])
    assert_equal(weights(tmp_path / "one.pt"), weights(world / "sst2.pt"))
    verb("tasks")(["load", str(tmp_path / "trec"), str(tmp_path / "one.pt"), str(tmp_path / "two.pt")])
    assert_equal(weights(tmp_path / "two.pt"), weights(world / "both.pt"))
    verb("tasks")(["load", str(tmp_path / "trec"), str(world / "base.pt"), str(tmp_path / "base.pt")])
    both, alone = (load_task_model(path, world) for path in (world / "both.pt", tmp_path / "base.pt"))
    assert torch.equal(logits(alone, "trec"), logits(both, "trec"))
    assert torch.equal(logits(both, "sst2"), logits(load_task_model(world / "sst2.pt", world), "sst2"))
    assert not both.training
    assert not any(parameter.requires_grad for parameter in both.parameters())

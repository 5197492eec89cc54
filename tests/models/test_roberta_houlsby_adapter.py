"""What the Houlsby adapters in RoBERTa promise."""

from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.models.roberta_houlsby_adapter import RobertaHoulsbyAdapterModel, data_labels
from tests import toy_tasks
from tests.toy_tasks import copy_of, logits, make_base, make_model, randomise, started_from, tokens_of, train

NORMS = {"post-norm": {}, "pre-norm": {"encoder_normalize_before": True}}
BASE = "encoder.sentence_encoder"


@pytest.fixture(params=NORMS)
def norm(request: pytest.FixtureRequest) -> dict[str, Any]:
    """fairseq's options of the place of the norms."""
    return NORMS[request.param]


@pytest.fixture
def model(norm: dict[str, Any]) -> RobertaHoulsbyAdapterModel:
    """With a task whose parameters have been somewhere."""
    return randomise(started_from(make_model(**norm), make_base(**norm).state_dict()))


def test_roberta_without_a_task_is_its_base(model: Any, norm: dict[str, Any]) -> None:
    logits(model, "sst2")  # leaves nothing behind
    assert torch.equal(model(tokens_of())[0], make_base(**norm)(tokens_of())[0])


def test_adapters_stand_before_the_residuals(model: Any, norm: dict[str, Any]) -> None:
    """Fig. 2, written out for the second layer."""
    layer, task, x = model.base.layers[1], model.tasks["sst2"], torch.randn(5, 2, toy_tasks.WIDTH)
    one, other = list(task.norms)[3:5]

    def attend(x: Tensor) -> Tensor:
        return task.adapters[2](layer.self_attn(query=x, key=x, value=x, key_padding_mask=None)[0])

    def feed(x: Tensor) -> Tensor:
        return task.adapters[3](layer.fc2(layer.activation_fn(layer.fc1(x))))

    with model.active("sst2"), torch.no_grad():
        if norm:
            middle = x + attend(one(x))
            expected = middle + feed(other(middle))
        else:
            middle = one(x + attend(x))
            expected = other(middle + feed(middle))
        torch.testing.assert_close(layer(x, encoder_padding_mask=None), expected)


@pytest.mark.parametrize(
    ("tuning", "prefixes"),
    [
        ("norms", ("tasks.a.norms.",)),
        ("top", (f"{BASE}.layers.1.", f"{BASE}.layer_norm.")),
        ("full", (BASE,)),
    ],
)
def test_three_steps_move_exactly_what_is_tuned(norm: dict[str, Any], tuning: str, prefixes: tuple[str, ...]) -> None:
    model = make_model("a", tuning=tuning, **norm)
    expected = {name for name, _ in model.named_parameters() if name.startswith(("classification_heads.a.", *prefixes))}
    assert {name for name, p in model.named_parameters() if p.requires_grad} == expected
    before = copy_of(model.state_dict())
    train(model, "a")
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    # A table of the masked language model's head is that of the embeddings; attention does not depend on k's offset.
    shared = {"encoder.lm_head.weight"} if tuning == "full" else set()
    still = {name for name in expected if name.endswith("k_proj.bias")}
    assert moved | still == expected | shared


def test_an_added_task_leaves_the_earlier_as_they_are() -> None:
    """Of another width and another number of labels, and with the norms alone."""
    model = randomise(make_model())
    before, plain = logits(model, "sst2"), model(tokens_of())[0]
    second = started_from(make_model("trec", 7, "abcdef", bottleneck_dim=3, num_classes=6), model.state_dict())
    train(second, "trec")
    third = started_from(make_model("cola", 8, (), tuning="norms", num_classes=1), second.state_dict())
    train(third, "cola")
    sizes = {name: (len(task.adapters), len(task.norms)) for name, task in third.tasks.items()}
    assert sizes == {"cola": (0, 5), "sst2": (4, 5), "trec": (4, 5)}
    assert torch.equal(logits(third, "sst2"), before)
    assert torch.equal(logits(third, "trec"), logits(second, "trec"))
    assert torch.equal(third(tokens_of())[0], plain)
    assert [task.labels for task in third.tasks.values()] == [[], list(toy_tasks.LABELS), list("abcdef")]


def test_a_task_is_switched_by_name() -> None:
    model = randomise(make_model())
    model.register_classification_head("trec", 3)
    randomise(model, "trec", seed=8)
    with model.active("trec"), torch.no_grad():
        logits(model, "sst2")  # and back
        features = model(tokens_of(), features_only=True)[0]
        assert torch.equal(model.classification_heads["trec"](features), logits(model, "trec"))
    with pytest.raises(InputError, match="'mnli' is unknown"), model.active("mnli"):
        raise AssertionError("must not compute")


@pytest.mark.parametrize("tuning", ["top", "full"])
def test_tunings_that_change_the_base_are_refused_if_it_has_tasks(tuning: str) -> None:
    first = make_model()
    with pytest.raises(InputError, match=rf"--tuning {tuning} .*\(sst2\)"):
        make_model("trec", tuning=tuning).load_state_dict(copy_of(first.state_dict()), strict=True)
    changed = make_model(tuning=tuning)  # the other way round is right: the changed base is the next task's
    second = started_from(make_model("trec"), changed.state_dict())
    assert torch.equal(logits(second, "sst2"), logits(changed, "sst2"))


@pytest.mark.parametrize(
    ("given", "state", "match"),
    [
        ({"bottleneck_dim": 8}, make_model, "the checkpoint's task 'sst2' has --bottleneck-dim 64, not 8"),
        ({"labels": ("bad", "mixed", "good")}, make_model, "has labels bad, good, mixed, not bad, mixed, good"),
        ({}, lambda: make_base(max_positions=16), "--max-positions: 24, but .*; give --max-positions 16$"),
        ({}, lambda: make_base(words=31), "it has 36 symbols, but the data's dictionary has 35"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line(given: dict[str, Any], state: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        make_model(**given).load_state_dict(state().state_dict(), strict=True)


def test_labels_come_from_the_data() -> None:
    with pytest.raises(InputError, match=r"--num-classes: 2, but .* has 3 labels \(bad, good, mixed\)"):
        make_model().register_classification_head("trec", 2)
    assert data_labels(toy_tasks.make_task(("no", "yes", "madeupword0000", "madeupword0001"))) == ["no", "yes"]

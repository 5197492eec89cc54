"""What the Houlsby adapters in RoBERTa promise."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.roberta_houlsby_adapter import RobertaHoulsbyAdapterModel
from tests import toy_tasks
from tests.toy_tasks import copy_of, logits, make_base, make_model, randomise, started_from, tokens_of, train

NORMS = {"post-norm": {}, "pre-norm": {"encoder_normalize_before": True}}
BASE = "encoder.sentence_encoder"
HEAD = {f"{matrix}.{kind}" for matrix in ("dense", "out_proj") for kind in ("weight", "bias")}
ADAPTERS = {f"adapters.{n}.{m}.{kind}" for n in range(4) for m in ("down", "up") for kind in ("weight", "bias")}


@pytest.fixture(params=NORMS)
def norm(request: pytest.FixtureRequest) -> dict[str, Any]:
    """fairseq's options of the place of the norms."""
    return NORMS[request.param]


@pytest.fixture
def base(norm: dict[str, Any]) -> Any:
    return make_base(**norm)


@pytest.fixture
def model(base: Any, norm: dict[str, Any]) -> RobertaHoulsbyAdapterModel:
    """On that base, with a task whose parameters have been somewhere."""
    return randomise(started_from(make_model(**norm), base.state_dict()))


def head_keys(name: str) -> set[str]:
    return {f"classification_heads.{name}.{key}" for key in HEAD}


def norm_keys(name: str, count: int) -> set[str]:
    return {f"tasks.{name}.norms.{n}.{kind}" for n in range(count) for kind in ("weight", "bias")}


def adapter_keys(name: str) -> set[str]:
    return {f"tasks.{name}.{key}" for key in ADAPTERS}


def num_norms(norm: dict[str, Any]) -> int:
    """That of the embeddings, two a layer, and one at the end of pre-norm encoders."""
    return 6 if norm else 5


def test_without_a_task_it_is_its_base_exactly(base: Any, model: Any) -> None:
    logits(model, "sst2")  # leaves nothing behind
    assert torch.equal(base(tokens_of())[0], model(tokens_of())[0])
    assert torch.equal(base(tokens_of(), features_only=True)[0], model(tokens_of(), features_only=True)[0])


def test_adapters_stand_before_the_residuals(model: Any, norm: dict[str, Any]) -> None:
    """Fig. 2, written out for the first layer."""
    layer, task, x = model.base.layers[0], model.tasks["sst2"], torch.randn(5, 2, toy_tasks.WIDTH)
    one, other = list(task.norms)[1:3]

    def attend(x: Tensor) -> Tensor:
        return task.adapters[0](layer.self_attn(query=x, key=x, value=x, key_padding_mask=None)[0])

    def feed(x: Tensor) -> Tensor:
        return task.adapters[1](layer.fc2(layer.activation_fn(layer.fc1(x))))

    with model.active("sst2"), torch.no_grad():
        if norm:
            middle = x + attend(one(x))
            expected = middle + feed(other(middle))
        else:
            middle = one(x + attend(x))
            expected = other(middle + feed(middle))
        torch.testing.assert_close(layer(x, encoder_padding_mask=None), expected)


def tuned_keys(tuning: str, norm: dict[str, Any]) -> set[str]:
    """What each way of tuning trains, beside the head of the task ``a``."""
    prefixes = {"top": (f"{BASE}.layers.1.", f"{BASE}.layer_norm."), "full": (BASE,)}.get(tuning, ("nothing",))
    of_base = {name for name, _ in make_base(**norm).named_parameters() if name.startswith(prefixes)}
    of_task = {
        "adapters": adapter_keys("a") | norm_keys("a", num_norms(norm)),
        "norms": norm_keys("a", num_norms(norm)),
    }
    return of_base | of_task.get(tuning, set())


@pytest.mark.parametrize("tuning", ["adapters", "norms", "top", "full"])
def test_three_steps_move_exactly_what_is_tuned(base: Any, norm: dict[str, Any], tuning: str) -> None:
    model = started_from(make_model("a", tuning=tuning, **norm), base.state_dict())
    expected = tuned_keys(tuning, norm) | head_keys("a")
    assert {name for name, p in model.named_parameters() if p.requires_grad} == expected
    before = copy_of(model.state_dict())
    train(model, "a")
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    # A table of the masked language model's head is that of the embeddings; attention does not depend on k's offset.
    shared = {"encoder.lm_head.weight"} if tuning == "full" else set()
    still = {name for name in expected if name.endswith("k_proj.bias")}
    assert moved | still == expected | shared


def test_an_added_task_leaves_the_earlier_as_they_are(model: Any, norm: dict[str, Any]) -> None:
    """Of another width and another number of labels, and with the norms alone."""
    before, plain = logits(model, "sst2"), model(tokens_of())[0]
    second = started_from(make_model("trec", 7, "abcdef", bottleneck_dim=3, num_classes=6, **norm), model.state_dict())
    train(second, "trec")
    third = started_from(make_model("cola", 8, (), tuning="norms", num_classes=1, **norm), second.state_dict())
    train(third, "cola")
    assert list(third.tasks) == ["cola", "sst2", "trec"]
    assert torch.equal(logits(third, "sst2"), before)
    assert torch.equal(logits(third, "trec"), logits(second, "trec"))
    assert torch.equal(third(tokens_of())[0], plain)
    assert [task.labels for task in third.tasks.values()] == [[], list(toy_tasks.LABELS), list("abcdef")]
    trained = {name for name, p in third.named_parameters() if p.requires_grad}
    assert trained == head_keys("cola") | norm_keys("cola", num_norms(norm))


def test_a_task_is_switched_by_name(model: Any) -> None:
    model.register_classification_head("trec", 3)
    randomise(model, "trec", seed=8)
    with model.active("trec"), torch.no_grad():
        features = model(tokens_of(), features_only=True)[0]
        assert torch.equal(model.classification_heads["trec"](features), logits(model, "trec"))
        logits(model, "sst2")
        assert torch.equal(model(tokens_of(), features_only=True)[0], features)
    assert not torch.equal(model(tokens_of(), features_only=True)[0], features)
    with pytest.raises(InputError, match="no task 'mnli'; it has sst2, trec"), model.active("mnli"):
        raise AssertionError("must not compute")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bottleneck_dim": 8}, "has --bottleneck-dim 64, not 8"),
        ({"labels": ("bad", "mixed", "good")}, "has labels bad, good, mixed, not bad, mixed, good"),
    ],
)  # fmt: skip
def test_another_task_of_the_same_name_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=f"the checkpoint's task 'sst2' {words}"):
        make_model(**change).load_state_dict(make_model().state_dict(), strict=True)


@pytest.mark.parametrize("tuning", ["top", "full"])
def test_a_base_that_tasks_rest_on_is_not_changed(tuning: str) -> None:
    first = make_model()
    with pytest.raises(InputError, match=rf"--tuning {tuning} changes the base .*\(sst2\)"):
        make_model("trec", tuning=tuning).load_state_dict(copy_of(first.state_dict()), strict=True)
    # The other way round is right: the changed base is the next task's.
    changed = make_model(tuning=tuning)
    train(changed, "sst2")
    second = started_from(make_model("trec"), changed.state_dict())
    train(second, "trec")
    assert torch.equal(logits(second, "sst2"), logits(changed, "sst2"))
    again = started_from(make_model(tuning=tuning, seed=4), changed.state_dict())
    assert torch.equal(logits(again, "sst2"), logits(changed, "sst2"))


def test_a_base_of_another_length_or_dictionary_is_one_line() -> None:
    with pytest.raises(InputError, match="^--max-positions: 24, but .* up to 16 tokens; give --max-positions 16$"):
        make_model().load_state_dict(make_base(max_positions=16).state_dict(), strict=True)
    with pytest.raises(InputError, match="it knows 36 symbols, the data's dictionary 35: wrong dictionary"):
        make_model().load_state_dict(make_base(words=31).state_dict(), strict=True)


def test_labels_come_from_the_data() -> None:
    model = make_model()
    with pytest.raises(InputError, match=r"--num-classes: 2, but .* has 3 labels \(bad, good, mixed\)"):
        model.register_classification_head("trec", 2)
    with pytest.raises(InputError, match=r"'a\.b' cannot name a task"):
        model.register_classification_head("a.b", 3)
    padded = make_model(labels=("no", "yes"))
    task = toy_tasks.make_task(("no", "yes", "madeupword0000", "madeupword0001"))
    built = RobertaHoulsbyAdapterModel.build_model(toy_tasks.make_args(), task)
    assert built.data_labels == padded.tasks["sst2"].labels == ["no", "yes"]

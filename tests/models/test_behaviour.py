"""What every model promises, checked on all of them; what some promise besides is in a file of its own."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError
from tests.models.every_model import SUBJECTS, Subject, stored_name
from tests.threads import in_threads

# Topics mix log-probabilities of some −3 in float32, and with LoRA attention takes fairseq's slower way; all else
# starts bit for bit as its base.
INEXACT = {"topics": 1e-5, "AD-lora": 5e-6, "GAD-lora-pre-norm": 5e-6}


on_a_base = pytest.mark.parametrize("kind", [name for name in SUBJECTS if name != "dagru"], indirect=True)


@pytest.fixture(scope="module", params=SUBJECTS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def subject(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return SUBJECTS[kind](tmp_path_factory.mktemp("subject"))


@pytest.fixture
def model(subject: Subject) -> Any:
    return subject.randomised()


def scores(subject: Subject, model: Any, inputs: dict[str, Tensor] | None = None) -> Tensor:
    with torch.no_grad():
        return subject.run(model, subject.inputs if inputs is None else inputs)


@on_a_base
def test_starts_as_its_base(kind: str, subject: Subject) -> None:
    assert subject.base is not None
    assert subject.start is not None
    assert subject.run_base is not None
    base, model = subject.base(), subject.start(seed=2)
    assert model.state_dict().keys() - base.state_dict().keys() == subject.trained | subject.stored
    model.load_state_dict(copy.deepcopy(base.state_dict()), strict=True)
    with torch.no_grad():
        expected = subject.run_base(base, model)
    torch.testing.assert_close(scores(subject, model), expected, atol=INEXACT.get(kind, 0), rtol=0)


def test_three_steps_move_exactly_what_is_trained(subject: Subject) -> None:
    model = subject.make().train()
    trained = {stored_name(name) for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained == subject.trained
    before = copy.deepcopy(model.state_dict())
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for _ in range(3):
        optimiser.zero_grad()
        subject.run(model, subject.inputs).square().sum().backward()
        optimiser.step()
    after = model.state_dict()
    assert {name for name in tensors_in(before) if not torch.equal(after[name], before[name])} == subject.trained


def tensors_in(state: dict[str, Any]) -> list[str]:
    """The entries but for a state carried over, which is none."""
    return [name for name, value in state.items() if isinstance(value, Tensor)]


@on_a_base
def test_dropout_of_the_frozen_base_is_an_option(subject: Subject) -> None:
    noisy = subject.make(dropout=0.5).train()
    assert not torch.equal(scores(subject, noisy), scores(subject, noisy))
    quiet = subject.make(dropout=0.5, frozen_mode="eval").train()
    assert torch.equal(scores(subject, quiet), scores(subject, quiet))
    assert quiet.training
    own = {name.rpartition(".")[0] for name in subject.trained} & dict(quiet.named_modules()).keys()
    assert all(quiet.get_submodule(name).training for name in own)


def test_padding_does_not_matter(subject: Subject, model: Any) -> None:
    wider = {
        name: torch.nn.functional.pad(value, (0, 5), value=1) if name in subject.tokens else value
        for name, value in subject.inputs.items()
    }
    expected, found = scores(subject, model), scores(subject, model, wider)
    if expected.dim() == 3:
        is_token = subject.inputs[subject.tokens[0]].ne(1)
        expected, found = expected[is_token], found[:, : is_token.size(1)][is_token]
    torch.testing.assert_close(found, expected)


def test_a_batch_is_its_rows_in_any_order_and_one_at_a_time(subject: Subject, model: Any) -> None:
    together = scores(subject, model)
    order = torch.randperm(len(together), generator=torch.Generator().manual_seed(0)).tolist()
    torch.testing.assert_close(scores(subject, model, subject.rows(*order)), together[order])
    for row in range(len(together)):
        torch.testing.assert_close(scores(subject, model, subject.rows(row)), together[[row]], atol=2e-5, rtol=1e-5)


def test_saved_and_loaded_gives_the_same(subject: Subject, model: Any, tmp_path: Path) -> None:
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other = subject.make(seed=9)
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True), strict=True)
    assert torch.equal(scores(subject, other), scores(subject, model))
    state, again = model.state_dict(), other.state_dict()
    assert state.keys() == again.keys()
    assert all(torch.equal(state[name], again[name]) for name in tensors_in(state))


@on_a_base
def test_what_is_missing_is_named_not_filled(subject: Subject, model: Any) -> None:
    damaged = copy.deepcopy(model.state_dict())
    name = max(name for name in subject.trained if "classification_heads" not in name)
    del damaged[name]
    with pytest.raises(InputError, match=rf"(missing:|lacks) .*{name.replace('.', '[.]')}") as caught:
        subject.make().load_state_dict(damaged, strict=True)
    assert "\n" not in str(caught.value)


def test_a_deep_copy_has_parameters_of_its_own(subject: Subject, model: Any) -> None:
    twin, before = copy.deepcopy(model), scores(subject, model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(scores(subject, twin), before)


def test_threads_that_share_a_model_compute_as_one(subject: Subject, model: Any) -> None:
    """Bit for bit, each its own rows."""
    count = len(next(iter(subject.inputs.values())))
    jobs = [subject.rows(*((n + i) % count for i in range(1 + n % 3))) for n in range(9)]
    alone = [scores(subject, model, job) for job in jobs]
    shared = in_threads(lambda job: scores(subject, model, job), jobs)
    assert all(torch.equal(one, other) for one, other in zip(alone, shared, strict=True))

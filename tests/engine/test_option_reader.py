"""The option that fairseq does not take is named, with what is near it; what it takes is taken."""

from __future__ import annotations

import pytest
from fairseq import options

from fairseq_ext.engine.option_reader import Mistake, first_mistake

TRAIN = ["--task", "multi_domain_translation", "--arch", "transformer_gated_adapter", "--optimizer", "adam"]
GENERATE = ["--task", "multi_domain_translation", "--path", "best.pt"]


def mistake_in(line: str, program: str = "train") -> Mistake | None:
    """The mistake in options that are added to a command."""
    return first_mistake([(program, [TRAIN if program == "train" else GENERATE, line.split()])])


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--lr=0.1 --lr 0.2 --update-freq 1,2 --fp16 --clip-norm 1 --save-interval-updates -1",
        "--adam-betas (0.9,0.98) --bottleneck-dim 8 --domain-tags",  # of the optimizer, the architecture, the task
        "--criterion label_smoothed_cross_entropy --label-smoothing 0.1",
        "--user-dir /nowhere",  # ours comes after it
    ],
)
def test_what_fairseq_takes_is_taken(line: str) -> None:
    assert mistake_in(line) is None


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("--lrr 0.1", "did you mean 'lr'?"),
        ("--max-upd 8", "did you mean 'max-update'?"),
        ("--max_update 8", "did you mean 'max-update'?"),
        ("--label-smoothing 0.1", "criterion"),
        ("--lr fast", "a number, or several joined by commas"),
        ("--lr 0.1.", "a number, or several joined by commas"),
        ("--max-update 1.5", "a whole number"),
        ("--lr", "a value"),
        ("--lr 1 2", "join them by commas"),
        ("--fp16 1", "leave it out"),
        ("--task multi_domain", "did you mean 'multi_domain_translation'?"),
        ("--optimizer adm", "did you mean 'adam' or 'adamax'?"),
        ("--ddp-backend x", "choose one of c10d, "),
        ("-a nothing-like-it", "--help"),
        ("--arch transformer_gatd_adapter", "did you mean 'transformer_gated_adapter'"),
        ("--help", "take this out"),
    ],
)
def test_what_is_near_it_is_named(line: str, near: str) -> None:
    mistake = mistake_in(line)
    assert mistake is not None
    assert (mistake.part, mistake.flag) == (1, line.split()[0])
    assert near in mistake.text


def test_options_of_generating_are_others() -> None:
    assert mistake_in("--beam 5 --domain-source oracle", "generate") is None
    for line in ("--beem 5", "--lr 5", "--domain-source oracel"):
        mistake = mistake_in(line, "generate")
        assert mistake is not None
        assert mistake.flag == line.split()[0]


def test_the_first_mistake_of_all_commands_is_told() -> None:
    commands = [("train", [TRAIN, []]), ("train", [[*TRAIN, "--lr", "x"], []]), ("train", [[*TRAIN, "--lrr", "x"], []])]
    mistake = first_mistake(commands)
    assert mistake is not None
    assert mistake[:3] == (1, 0, "--lr")
    needs = first_mistake([("train", [["--lr", "1"], []])])
    assert needs is not None
    assert needs.flag == "--arch"


def test_what_no_single_option_is_to_blame_for_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError

    for line, reason in (("more", "'more'"), ("--fp16 --tpu", "Cannot combine"), ("--lr 1", "KeyError")):
        if reason == "KeyError":
            monkeypatch.setattr(options, "parse_args_and_arch", fail)
        mistake = mistake_in(line)
        assert mistake is not None
        assert mistake.flag == ""
        assert reason in mistake.text

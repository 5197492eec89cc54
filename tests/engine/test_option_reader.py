"""What is said of options that fairseq does not take, and that what it takes is taken."""

from __future__ import annotations

import pytest
from fairseq import options

from fairseq_ext.engine.option_reader import first_mistake

TRAIN = ["--task", "multi_domain_translation", "--arch", "transformer_gated_adapter", "--optimizer", "adam"]
GENERATE = ["--task", "multi_domain_translation", "--path", "best.pt"]


def said_of(line: str, program: str = "train") -> str | None:
    """What is wrong with options that are added to a command, and which one it is."""
    mistake = first_mistake([(program, [TRAIN if program == "train" else GENERATE, line.split()])])
    if mistake is None:
        return None
    assert (mistake.command, mistake.part) == (0, 1)
    return f"{mistake.flag}: {mistake.text}"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--lr 0.1 --update-freq 1,2 --fp16 --clip-norm 1 --save-interval-updates -1",
        "--lr=0.1 --lr 0.2",  # the last counts
        "--adam-betas (0.9,0.98)",  # of the optimizer
        "--bottleneck-dim 8 --gate-temperature 0.5",  # of the architecture
        "--criterion label_smoothed_cross_entropy --label-smoothing 0.1",  # of the criterion
        "--lr-scheduler inverse_sqrt --warmup-updates 7",  # of the scheduler
        "--domain-tags --teacher-dir x",  # of the task
        "--user-dir /nowhere",  # ours comes after it
    ],
)
def test_what_fairseq_takes_is_taken(line: str) -> None:
    assert said_of(line) is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--lrr 0.1", "--lrr: fairseq-train has no option 'lrr'; did you mean 'lr'?"),
        ("--bottleneckdim 8", "--bottleneckdim: fairseq-train has no option 'bottleneckdim'; "
         "did you mean 'bottleneck-dim'?"),
        ("--max-upd 8", "--max-upd: fairseq-train has no option 'max-upd'; did you mean 'max-update'?"),
        ("--max_update 8", "--max_update: fairseq-train has no option 'max_update'; did you mean 'max-update'?"),
        ("--label-smoothing 0.1", "--label-smoothing: fairseq-train has no option 'label-smoothing' with this task, "
         "architecture, criterion and optimizer; take it out"),
        ("--lr fast", "--lr: fairseq-train expects a number, or several joined by commas, got 'fast'"),
        ("--lr 0.1.", "--lr: fairseq-train expects a number, or several joined by commas, got '0.1.'"),
        ("--update-freq 1,x", "--update-freq: fairseq-train expects a whole number, or several joined by commas, "
         "got '1,x'"),
        ("--max-update 1.5", "--max-update: fairseq-train expects a whole number, got '1.5'"),
        ("--gate-temperature hot", "--gate-temperature: fairseq-train expects a number, got 'hot'"),
        ("--lr", "--lr: fairseq-train needs a value here"),
        ("--lr 1 2", "--lr: fairseq-train takes one value here, got '1', '2'; join them by commas, as one text"),
        ("--max-update 1 2", "--max-update: fairseq-train takes one value here, got '1', '2'"),
        ("--fp16 1", "--fp16: fairseq-train takes no value here, got '1'; give true, or leave it out"),
        ("--task multi_domain", "--task: fairseq-train knows no 'multi_domain'; "
         "did you mean 'multi_domain_translation'?"),
        ("--optimizer adm", "--optimizer: fairseq-train knows no 'adm'; did you mean 'adam' or 'adamax'?"),
        ("--ddp-backend x", "--ddp-backend: fairseq-train knows no 'x'; choose one of c10d, fully_sharded, "
         "legacy_ddp, no_c10d, pytorch_ddp, slowmo"),
        ("-a nothing-like-it", "-a: fairseq-train knows no 'nothing-like-it'; its --help lists what there is"),
        ("--help", "--help: fairseq-train would only print its help; take this out"),
        ("more", ": fairseq-train takes no further words, got 'more'"),
    ],
)  # fmt: skip
def test_what_is_near_it_is_named(line: str, said: str) -> None:
    assert said_of(line) == said


@pytest.mark.parametrize(("value", "near"), [("transformer_gatd_adapter", "transformer_gated_adapter")])
def test_architectures_near_it_are_named(value: str, near: str) -> None:
    assert f"knows no {value!r}; did you mean {near!r}" in str(said_of(f"--arch {value}"))


def test_options_of_generating_are_others() -> None:
    assert said_of("--beam 5 --domain-source oracle", "generate") is None
    assert said_of("--beem 5", "generate") == "--beem: fairseq-generate has no option 'beem'; did you mean 'beam'?"
    assert said_of("--lr 5", "generate") is not None
    assert "knows no 'oracel'; did you mean 'oracle'?" in str(said_of("--domain-source oracel", "generate"))


def test_the_first_mistake_of_all_commands_is_told() -> None:
    commands = [("train", [TRAIN, []]), ("train", [[*TRAIN, "--lr", "x"], []]), ("train", [[*TRAIN, "--lrr", "x"], []])]
    mistake = first_mistake(commands)
    assert mistake is not None
    assert (mistake.command, mistake.part, mistake.flag) == (1, 0, "--lr")
    assert first_mistake(commands[:1]) is None


def test_a_training_needs_an_architecture() -> None:
    mistake = first_mistake([("train", [["--lr", "1"], []])])
    assert mistake is not None
    assert (mistake.flag, mistake.text) == ("--arch", "fairseq-train needs an architecture")


def test_what_no_single_option_is_to_blame_for_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        said_of_whole("--fp16 --tpu")
        == "does not take its options: Cannot combine --fp16 and --tpu, use --bf16 on TPUs"
    )

    def fail(*_: object, **__: object) -> None:
        raise KeyError

    monkeypatch.setattr(options, "parse_args_and_arch", fail)
    assert said_of_whole("--lr 1") == "does not take its options: KeyError"


def said_of_whole(line: str) -> str:
    mistake = first_mistake([("train", [TRAIN, line.split()])])
    assert mistake is not None
    assert mistake.flag == ""
    return mistake.text.removeprefix("fairseq-train ")

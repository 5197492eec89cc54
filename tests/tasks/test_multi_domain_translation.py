from __future__ import annotations

import json
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics
from fairseq.tasks import TASK_REGISTRY

from fairseq_ext.errors import InputError
from fairseq_ext.tasks.multi_domain_translation import MultiDomainTranslationTask
from fairseq_ext.teacher.labels import read_teacher_probs
from tests import toy

AD, GAD = "transformer_domain_adapter_tiny", "transformer_gated_adapter_tiny"


@pytest.fixture
def own_data(data: Path, tmp_path: Path) -> Path:
    """A copy of the data to break."""
    return Path(shutil.copytree(data, tmp_path / "data-bin"))


def loaded(data: Path, *extra: str, arch: str = AD) -> tuple[Any, Any]:
    task, args = toy.make_task(data, *extra, arch=arch)
    model = toy.make_model(task, args)
    if arch in (AD, GAD):
        toy.randomise_adapters(model)
    return task, model


def test_registered(data: Path) -> None:
    toy.make_task(data)
    assert TASK_REGISTRY["multi_domain_translation"] is MultiDomainTranslationTask


def test_finds_domains_and_languages_by_itself(data: Path) -> None:
    task, _ = toy.make_task(data)
    assert task.domains == toy.DOMAINS
    assert (task.cfg.source_lang, task.cfg.target_lang) == ("en", "pl")


def test_one_domain_of_a_split(data: Path) -> None:
    task, _ = loaded(data)
    task.load_dataset("test:med")
    assert len(task.datasets["test:med"]) == 4
    assert {task.datasets["test:med"][i]["domain_id"] for i in range(4)} == {1}


def test_validation_logs_every_domain_and_the_average(data: Path) -> None:
    task, model = loaded(data, "--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 5}')
    task.load_dataset("valid")
    dataset = task.datasets["valid"]
    criterion = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)
    logs = []
    for batch in dataset.batch_by_size(dataset.ordered_indices(), max_sentences=2):
        logs.append(task.valid_step(dataset.collater([dataset[i] for i in batch]), model, criterion)[2])
    assert len({frozenset(log) for log in logs}) == 1  # the same keys in every batch, so that workers can sum
    with metrics.aggregate(new_root=True) as shown:
        for log in logs:  # fairseq reduces batch by batch
            task.reduce_metrics([log], criterion)
    values = shown.get_smoothed_values()
    by_domain = [values[f"loss_{name}"] for name in toy.DOMAINS]
    for d, name in enumerate(toy.DOMAINS):
        own = [log for log in logs if log[f"{name}/ntokens"]]
        assert sum(log["nsentences"] for log in own) == 5
        bits = sum(float(log["loss"]) for log in own) / sum(log["sample_size"] for log in own) / np.log(2)
        assert by_domain[d] == pytest.approx(bits, abs=1e-3)
    assert values["loss_avg"] == pytest.approx(sum(by_domain) / 3, abs=1e-3)
    assert values["bleu_avg"] == pytest.approx(sum(values[f"bleu_{name}"] for name in toy.DOMAINS) / 3, abs=1e-2)


def test_a_domain_whose_name_ends_with_anothers_is_logged_apart(tmp_path: Path) -> None:
    task, _ = toy.make_task(toy.make_data(tmp_path, ["in-law", "law"], (2, 2)))
    counts = {"loss": 0.0, "nll_loss": 0.0, "ntokens": 0, "nsentences": 0, "sample_size": 0}
    own = {"loss": 8.0, "nll_loss": 8.0, "ntokens": 2, "nsentences": 1, "sample_size": 2}
    log = own | {f"in-law/{k}": v for k, v in own.items()} | {f"law/{k}": v for k, v in counts.items()}
    with metrics.aggregate(new_root=True) as shown:
        task.reduce_metrics([log], LabelSmoothedCrossEntropyCriterion(task, False, 0.1))
    values = shown.get_smoothed_values()
    assert values["loss_in-law"] == pytest.approx(4 / np.log(2), abs=1e-3)
    assert "loss_law" not in values


# Training on some of the domains


def test_training_on_some_domains_keeps_all_numbers(data: Path, teacher: Path) -> None:
    task, model = loaded(data, "--train-domains", "sub, med", "--teacher-dir", str(teacher), arch=GAD)
    for split in ("train", "valid", "test"):
        task.load_dataset(split)
    train, valid, test = (task.datasets[split] for split in ("train", "valid", "test"))
    assert task.domains == toy.DOMAINS
    assert len(train) == 24  # 12 and 6 pairs, upsampled to the larger of the two
    assert {train[i]["domain_id"] for i in range(24)} == {1, 2}
    assert len(valid) == 10
    assert len(test) == 12
    sub = [train[i] for i in range(24) if train[i]["domain_id"] == 2]
    own = read_teacher_probs(teacher, "sub", "train", toy.DOMAINS, 6)
    assert all(any(np.array_equal(item["teacher_probs"], row) for row in own) for item in sub)
    criterion = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)
    with metrics.aggregate(new_root=True) as shown:
        for batch in valid.batch_by_size(valid.ordered_indices(), max_sentences=3):
            log = task.valid_step(valid.collater([valid[i] for i in batch]), model, criterion)[2]
            task.reduce_metrics([log], criterion)
    values = shown.get_smoothed_values()
    assert "loss_law" not in values
    assert values["loss_avg"] == pytest.approx((values["loss_med"] + values["loss_sub"]) / 2, abs=1e-3)


def test_validation_sets_of_other_names_and_one_domain(data: Path) -> None:
    task, _ = loaded(data, "--train-domains", "law", "--valid-subset", "valid,test")
    for split, size in (("valid", 5), ("test", 4), ("test:med", 4)):
        task.load_dataset(split)
        assert len(task.datasets[split]) == size


# Where the domain of a sentence comes from


def translate_typed(task: Any, model: Any, lines: list[str], **generation: Any) -> tuple[list, dict]:
    """Translate lines the way fairseq-interactive does; returns hypotheses in line order and the sample."""
    tokens, lengths = task.get_interactive_tokens_and_lengths(lines, lambda text: text)
    dataset = task.build_dataset_for_inference(tokens, lengths)
    batch = dataset.collater([dataset[i] for i in range(len(dataset))])
    generator = task.build_generator([model], Namespace(beam=2, max_len_b=8, **generation))
    sample = {"net_input": {k: batch["net_input"][k] for k in ("src_tokens", "src_lengths")}}
    hypotheses = task.inference_step(generator, [model], sample)
    return [hypotheses[batch["id"].tolist().index(i)][0] for i in range(len(lines))], sample


def test_a_typed_tag_chooses_the_adapter(data: Path) -> None:
    task, model = loaded(data)
    tagged, _ = translate_typed(task, model, ["<domain:law> w1 w2 w3", "<domain:sub>w1 w2 w3", "<domain:law>  w4"])
    law, model_law = loaded(data, "--domain", "law")
    sub, model_sub = loaded(data, "--domain", "sub")
    for hypothesis, (task_, model_), line in (
        (tagged[0], (law, model_law), "w1 w2 w3"),
        (tagged[1], (sub, model_sub), "w1 w2 w3"),
        (tagged[2], (law, model_law), "w4"),
    ):
        expected, _ = translate_typed(task_, model_, [line])
        assert hypothesis["tokens"].tolist() == expected[0]["tokens"].tolist()
        torch.testing.assert_close(hypothesis["positional_scores"], expected[0]["positional_scores"])
    assert not torch.allclose(tagged[0]["score"], tagged[1]["score"])


def test_a_tag_changes_nothing_for_gates(data: Path) -> None:
    task, model = loaded(data, arch=GAD)
    plain, _ = translate_typed(task, model, ["w1 w2 w3"])
    tagged, _ = translate_typed(task, model, ["<domain:med> w1 w2 w3"])
    torch.testing.assert_close(plain[0]["positional_scores"], tagged[0]["positional_scores"])


def test_adapters_without_a_domain_are_told(data: Path) -> None:
    task, model = loaded(data)
    with pytest.raises(InputError, match="--domain"):
        translate_typed(task, model, ["<domain:law> w1", "w1 w2 w3"])
    with pytest.raises(InputError, match="--domain"):
        loaded(data, "--domain-source", "none")[0].load_dataset("test")


def test_tag_model_reads_the_tag_as_text(data: Path) -> None:
    task, _ = loaded(data, "--domain-tags", arch="transformer_tiny")
    tokens, _ = task.get_interactive_tokens_and_lengths(["<domain:law> w1", "w1"], lambda text: text)
    assert tokens[0].tolist() == [task.src_dict.index("<domain:law>"), task.src_dict.index("w1"), 2]
    assert tokens[1].tolist() == [task.src_dict.index("w1"), 2]
    forced, _ = loaded(data, "--domain-tags", "--domain", "med", arch="transformer_tiny")
    tokens, _ = forced.get_interactive_tokens_and_lengths(["w1"], lambda text: text)
    assert tokens[0].tolist() == [forced.src_dict.index("<domain:med>"), forced.src_dict.index("w1"), 2]


def test_classifier_routing_needs_labels(data: Path) -> None:
    task, _ = loaded(data, "--domain-source", "classifier")
    with pytest.raises(InputError, match="--teacher-dir"):
        task.load_dataset("test")


# Gate weights


def test_gates_are_reported_under_the_lines_own_numbers(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    report = tmp_path / "gates.jsonl"
    task, model = loaded(data, "--print-gates", "--gates-output", str(report), arch=GAD)
    lines = ["w1", "w2 w3 w4 w5", "w6 w7", "w1"]
    hypotheses, _ = translate_typed(task, model, lines)
    translate_typed(task, model, ["w8 w9"])  # a second buffer goes on counting
    printed = dict(line.split("\t") for line in capsys.readouterr().out.splitlines() if line.startswith("G-"))
    assert set(printed) == {f"G-{i}" for i in range(5)}
    records = {record["id"]: record for record in map(json.loads, report.read_text().splitlines())}
    tokens = hypotheses[1]["tokens"]
    net_input = {"src_tokens": task.src_dict.encode_line(lines[1], add_if_not_exist=False).long().unsqueeze(0)}
    net_input["src_lengths"] = torch.tensor([5])
    alone = model.gate_weights(net_input, torch.cat([tokens[-1:], tokens[:-1]]).unsqueeze(0))
    np.testing.assert_allclose(records[1]["encoder"], alone["encoder"][0].numpy(), atol=1e-4)
    np.testing.assert_allclose(records[1]["decoder"], alone["decoder"][0].numpy(), atol=1e-4)
    shown = [float(part.split("=")[1]) for part in printed["G-1"].split()]
    mean = np.array(records[1]["encoder"] + records[1]["decoder"]).mean(0)
    np.testing.assert_allclose(shown, mean, atol=2e-3)
    assert records[0]["encoder"] == records[3]["encoder"]  # equal lines


# Bad input: one line, naming the file and the remedy


def refuse(data: Path, match: str, *extra: str, load: str = "train", arch: str = AD) -> None:
    with pytest.raises(InputError, match=match) as caught:
        loaded(data, *extra, arch=arch)[0].load_dataset(load)
    assert "\n" not in str(caught.value)


def test_domain_in_the_data_but_not_in_the_list(own_data: Path) -> None:
    shutil.copytree(own_data / "law", own_data / "news")
    refuse(own_data, r"news: not listed in .*domains\.txt")


def test_domain_in_the_list_but_not_in_the_data(own_data: Path) -> None:
    shutil.rmtree(own_data / "med")
    refuse(own_data, r"med: no binarised data")


def test_unsorted_or_missing_list(own_data: Path) -> None:
    (own_data / "domains.txt").write_text("sub\nlaw\nmed\n")
    refuse(own_data, r"domains\.txt: domain names must be sorted")
    (own_data / "domains.txt").unlink()
    refuse(own_data, r"domains\.txt: not found")


def test_missing_split(own_data: Path) -> None:
    for path in (own_data / "med").glob("test.*"):
        path.unlink()
    refuse(own_data, r"med/test\.en-pl\.en\.idx: not found", load="test")


def test_empty_domain(own_data: Path) -> None:
    toy.write_split(own_data / "med", "train", [], toy.make_dictionary())
    refuse(own_data, "med: split train is empty")


def test_sides_of_unequal_length(own_data: Path) -> None:
    for suffix in ("bin", "idx"):
        shutil.copy(own_data / f"sub/train.en-pl.pl.{suffix}", own_data / f"med/train.en-pl.pl.{suffix}")
    refuse(own_data, "med: the two sides of split train differ in length")


def test_a_tag_the_dictionary_lacks(own_data: Path) -> None:
    path = own_data / "dict.en.txt"
    path.write_text("".join(line for line in path.open() if "domain:sub" not in line))
    refuse(own_data, r"dict\.en\.txt: lacks the tag <domain:sub>", "--domain-tags", arch="transformer_tiny")


def test_unknown_domains_in_options_and_lines(data: Path) -> None:
    refuse(data, "--domain news: unknown", "--domain", "news")
    refuse(data, r"--train-domains news: unknown; .*domains\.txt has law, med, sub", "--train-domains", "law,news")
    refuse(data, "unknown domain news", load="test:news")
    task, _ = loaded(data)
    with pytest.raises(InputError, match="unknown domain news"):
        task.get_interactive_tokens_and_lengths(["<domain:news> w1"], lambda text: text)


def test_missing_label_rows(data: Path, teacher: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(teacher, tmp_path / "teacher"))
    probs = np.load(own / "med/train.npy")
    np.save(own / "med/train.npy", probs[:-1])
    refuse(data, r"med/train\.npy: has 11 rows for 12 sentences, row 12", "--teacher-dir", str(own))


def test_label_rows_that_do_not_sum_to_one(data: Path, teacher: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(teacher, tmp_path / "teacher"))
    probs = np.load(own / "med/train.npy")
    probs[4] *= 1.5
    np.save(own / "med/train.npy", probs)
    refuse(data, r"med/train\.npy, row 5", "--teacher-dir", str(own))

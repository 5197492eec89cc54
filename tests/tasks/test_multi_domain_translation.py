import json
import shutil
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics

from fairseq_ext.base.errors import InputError
from fairseq_ext.data.teacher_labels import read_teacher_probs
from fairseq_ext.models.adapter_transformer import NO_ADAPTER
from fairseq_ext.tasks.domain_metrics import average_over
from tests import toy

AD, GAD, MIX = "transformer_domain_adapter_tiny", "transformer_gated_adapter_tiny", "transformer_tiny"


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


@pytest.mark.slow
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
    for d in range(len(toy.DOMAINS)):
        own = [log for log in logs if log["by_domain/ntokens"][d]]
        assert sum(log["nsentences"] for log in own) == 5
        bits = sum(float(log["loss"]) for log in own) / sum(log["sample_size"] for log in own) / np.log(2)
        assert by_domain[d] == pytest.approx(bits, abs=1e-3)
    assert values["loss_avg"] == pytest.approx(sum(by_domain) / 3, abs=1e-3)
    assert values["bleu_avg"] == pytest.approx(sum(values[f"bleu_{name}"] for name in toy.DOMAINS) / 3, abs=1e-2)


# Training on some of the domains


def test_averages_are_over_the_validated_domains() -> None:
    with metrics.aggregate(new_root=True) as shown:
        metrics.log_scalar("loss_law", 1.0)
        metrics.log_scalar("loss_sub", 3.0)
    assert average_over(toy.DOMAINS, "loss", shown) == 2


def test_training_on_some_domains_keeps_all_numbers(data: Path, teacher: Path) -> None:
    task, _ = loaded(data, "--train-domains", "sub, med", "--teacher-dir", str(teacher), arch=GAD)
    for split in ("train", "valid", "test"):
        task.load_dataset(split, combine=split == "train")
    # Of training, 12 and 6 pairs, upsampled to the larger of the two.
    assert {split: len(dataset) for split, dataset in task.datasets.items()} == {"train": 24, "valid": 10, "test": 12}
    assert task.domains == toy.DOMAINS
    train = task.datasets["train"]
    assert {train[i]["domain_id"] for i in range(24)} == {1, 2}
    batch = train.collater([train[i] for i in range(24) if train[i]["domain_id"] == 2])
    own = read_teacher_probs(teacher, "sub", "train", toy.DOMAINS, 6)
    assert {tuple(row) for row in batch["teacher_probs"].tolist()} == {tuple(row) for row in own[:].tolist()}


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


def source_of(task: Any, line: str) -> dict[str, torch.Tensor]:
    """What a model is told of a line alone."""
    tokens = task.src_dict.encode_line(line, add_if_not_exist=False).long().unsqueeze(0)
    return {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.size(1)])}


def test_a_typed_tag_chooses_the_adapter(data: Path) -> None:
    task, model = loaded(data)
    encode, lengths = model.encoder.forward, []
    model.encoder.forward = lambda src_tokens, src_lengths, **given: (
        lengths.append(src_lengths.tolist()) or encode(src_tokens, src_lengths, **given)
    )
    tagged, _ = translate_typed(task, model, ["<domain:law>  w1 w2 w3", "<domain:sub>w1 w2 w3"])
    assert lengths == [[4, 4]]
    for hypothesis, domain in zip(tagged, ("law", "sub"), strict=True):
        [expected], _ = translate_typed(*loaded(data, "--domain", domain), ["w1 w2 w3"])
        assert hypothesis["tokens"].tolist() == expected["tokens"].tolist()
        torch.testing.assert_close(hypothesis["positional_scores"], expected["positional_scores"])
    assert not torch.allclose(tagged[0]["score"], tagged[1]["score"])


def test_tag_model_reads_the_tag_as_text_and_never_goes_without_unless_told_to(data: Path) -> None:
    for options, line in (([], "<domain:med> w1"), (["--domain", "med"], "w1")):
        task, _ = loaded(data, "--domain-tags", *options, arch=MIX)
        tokens, _ = task.get_interactive_tokens_and_lengths([line], lambda text: text)
        assert tokens[0].tolist() == [task.src_dict.index("<domain:med>"), task.src_dict.index("w1"), 2]
    # What is typed comes before what is passed, and that before --domain.
    for line, domain in (("<domain:law> w1", "law"), ("w1", "sub")):
        assert task.encode_line(line, str, "sub")[0] == task.src_dict.index(f"<domain:{domain}>")
    lines = ["<domain:law> w1", "w1 w2"]
    with pytest.raises(InputError, match="reads a domain's tag; .*--domain NAME.*law, med, sub"):
        translate_typed(*loaded(data, "--domain-tags", arch=MIX), lines)
    told, _ = translate_typed(*loaded(data, "--domain-tags", "--domain-source", "none", arch=MIX), lines)
    plain, _ = translate_typed(*loaded(data, arch=MIX), ["w1 w2"])
    torch.testing.assert_close(told[1]["positional_scores"], plain[0]["positional_scores"])


@pytest.mark.parametrize("line", ["w1 <domain:law> w2", "<domain:law><domain:law> w1"])
def test_a_tag_within_typed_text_is_refused(data: Path, line: str) -> None:
    task, _ = loaded(data)
    with pytest.raises(InputError, match=r"w[12].*': contains <domain:(law|med)>, a reserved symbol"):
        # A space around each tag, as the pieces of a subword model have.
        task.get_interactive_tokens_and_lengths([line], lambda text: text.replace("<", " <").replace(">", "> "))


def test_a_too_long_line_is_numbered_within_all_that_was_typed(data: Path) -> None:
    task, _ = loaded(data)
    for part, expected in ((["w1", "w2"], None), (["w1", "w2 w1 w2", "w2"], "sentence 3: has")):
        dataset = task.build_dataset_for_inference(*task.get_interactive_tokens_and_lengths(part, str))
        with pytest.raises(InputError, match=expected) if expected else nullcontext():
            task.filter_indices_by_size(np.arange(len(part)), dataset, (3, 3))


def test_typed_text_yields_no_special_symbols(data: Path) -> None:
    task, _ = loaded(data)
    [tokens], _ = task.get_interactive_tokens_and_lengths(["<s> w1 </s> <pad> w2 <unk>"], lambda text: text)
    words = [task.src_dict.index(word) for word in ("w1", "w2")]
    assert tokens.tolist() == [3, words[0], 3, 3, words[1], 3, 2]


def test_weights_of_adapters_in_place_of_a_domain(data: Path, teacher: Path) -> None:
    """The classifier's probabilities, put on the adapters by hand; certain ones are the classifier's choice."""
    soft, model = loaded(data, "--domain-source", "classifier-soft", "--teacher-dir", str(teacher))
    inputs = toy.first_batch(soft, "test", max_sentences=12)["net_input"]
    assert "domain_ids" not in inputs
    weights = inputs["domain_weights"]
    alone = [model(**{k: v[row : row + 1] for k, v in inputs.items()})[0] for row in range(len(weights))]
    together = model(**inputs)[0]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-5)
    hard, best = {name: value for name, value in inputs.items() if name != "domain_weights"}, weights.argmax(-1)
    certain = model(**hard, domain_weights=torch.nn.functional.one_hot(best, 3).float())[0]
    torch.testing.assert_close(certain, model(**hard, domain_ids=best)[0], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(together, certain)
    with torch.no_grad():
        for rows in (getattr(bank, kind) for bank in model.banks for kind in bank.row_names):
            rows.copy_(rows[:1].expand_as(rows))
    equal = [model(**given)[0] for given in (inputs, {**hard, "domain_ids": best})]  # mixed or not, all are alike
    torch.testing.assert_close(*equal, atol=1e-5, rtol=1e-5)


def test_what_is_of_no_domain_uses_the_base_alone(data: Path, tmp_path: Path) -> None:
    """By the classifier's class, by --domain and by a typed tag; base has no share in mixed weights."""
    teacher = ["--teacher-dir", str(toy.make_teacher(tmp_path, has_base=True))]
    task, model = loaded(data, "--domain-source", "classifier", *teacher)
    inputs = toy.first_batch(task, "test", max_sentences=12)["net_input"]
    is_base = inputs["domain_ids"] == NO_ADAPTER
    assert is_base.sum() == 6
    base = {**inputs, "domain_ids": torch.full((12,), NO_ADAPTER)}
    assert torch.equal(model(**inputs)[0][is_base], model(**base)[0][is_base])
    mixed, _ = loaded(data, "--domain-source", "classifier-soft", *teacher)
    weights = toy.first_batch(mixed, "test", max_sentences=12)["net_input"]["domain_weights"]
    assert weights.shape == (12, 3)
    assert (weights[is_base].sum(1) < 0.5).all()
    # A tagged model has no base, so its sentences take their likeliest domain.
    tagged, _ = loaded(data, "--domain-source", "classifier", "--domain-tags", *teacher, arch=MIX)
    tagged.load_dataset("test")
    tags = {int(tagged.datasets["test"][row]["source"][0]) for row in range(12)}
    assert tags == {tagged.src_dict.index(f"<domain:{name}>") for name in toy.DOMAINS}


def test_uncertain_sentences_use_the_base_if_asked(data: Path, tmp_path: Path) -> None:
    teacher = ["--teacher-dir", str(toy.make_teacher(tmp_path)), "--domain-source", "classifier"]
    labels = np.concatenate([np.load(path) for path in sorted(tmp_path.glob("**/test.npy"))])
    least = float(np.median(labels.max(1)))
    chosen = []
    for options in ([], ["--least-certainty", str(least)]):
        task, _ = loaded(data, *teacher, *options)
        task.load_dataset("test")
        inputs = task.datasets["test"].collater([task.datasets["test"][row] for row in range(len(labels))])
        chosen.append(inputs["net_input"]["domain_ids"][inputs["id"].argsort()])
    assert chosen[0].tolist() == labels.argmax(1).tolist()
    expected = np.where(labels.max(1) < least, NO_ADAPTER, labels.argmax(1))
    assert 0 < (expected == NO_ADAPTER).sum() < len(expected)
    assert chosen[1].tolist() == expected.tolist()


def test_the_base_can_be_forced(data: Path) -> None:
    plain, _ = translate_typed(*loaded(data, arch=MIX), ["w1 w2 w3"])
    for arch in (AD, GAD):
        told, _ = translate_typed(*loaded(data, "--domain", "base", arch=arch), ["w1 w2 w3"])
        typed, _ = translate_typed(*loaded(data, arch=arch), ["<domain:law> w1", "<domain:base> w1 w2 w3"])
        for hypothesis in (told[0], typed[1]):
            assert hypothesis["tokens"].tolist() == plain[0]["tokens"].tolist()
            torch.testing.assert_close(hypothesis["positional_scores"], plain[0]["positional_scores"])
    task, _ = loaded(data, "--domain", "base", arch=AD)
    assert set(toy.first_batch(task, "test", max_sentences=12)["net_input"]["domain_ids"].tolist()) == {NO_ADAPTER}
    with pytest.raises(InputError, match="unknown --domain 'base'|--domain"):
        loaded(data, "--domain", "base", "--domain-tags", arch=MIX)


def test_even_weights_translate_typed_lines_too(data: Path) -> None:
    task, model = loaded(data, "--domain-source", "uniform")
    [hypothesis, _], _ = translate_typed(task, model, ["w1 w2", "w3"])
    tokens = hypothesis["tokens"]
    before = torch.cat([tokens[-1:], tokens[:-1]]).unsqueeze(0)
    out = model(**source_of(task, "w1 w2"), prev_output_tokens=before, domain_weights=torch.full((1, 3), 1 / 3))
    forced = model.get_normalized_probs(out, log_probs=True)[0].gather(1, tokens.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(hypothesis["positional_scores"], forced, atol=1e-4, rtol=0)


# Gate weights


def test_gates_are_reported_under_the_lines_own_numbers(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    report = tmp_path / "gates.jsonl"
    options = ["--print-gates", "--gates-output", str(report)]
    task, model = loaded(data, *options, arch=GAD)
    lines = ["w1", "w2 w3 w4 w5", "w6 w7", "w1"]
    hypotheses, _ = translate_typed(task, model, lines)
    translate_typed(task, model, ["w8 w9"])  # a second buffer goes on counting
    printed = dict(line.split("\t") for line in capsys.readouterr().out.splitlines() if line.startswith("G-"))
    assert set(printed) == {f"G-{i}" for i in range(5)}
    records = {record["id"]: record for record in map(json.loads, report.read_text().splitlines())}
    tokens = hypotheses[1]["tokens"]
    alone = model.gate_weights(source_of(task, lines[1]), torch.cat([tokens[-1:], tokens[:-1]]).unsqueeze(0))
    for part in ("encoder", "decoder"):
        np.testing.assert_allclose(records[1][part], alone[part][0].numpy(), atol=1e-4)
    shown = [float(part.split("=")[1]) for part in printed["G-1"].split()]
    mean = np.array(records[1]["encoder"] + records[1]["decoder"]).mean(0)
    np.testing.assert_allclose(shown, mean, atol=2e-3)
    assert records[0]["encoder"] == records[3]["encoder"]  # equal lines


# Bad input


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (("--domain", "news"), "--domain: 'news' is unknown"),
        (("--train-domains", "law,news"), "--train-domains: 'news' is unknown; choose one of law, med, sub"),
        (("--domain-source", "none"), "plain adapters need a domain; .*--domain"),
        (("--domain-tags", "--domain-source", "uniform"), "--domain-source uniform: cannot"),
        (("--domain-source", "classifier"), "--teacher-dir"),
    ],
)
def test_options_that_do_not_fit(data: Path, options: tuple[str, ...], match: str) -> None:
    with pytest.raises(InputError, match=match):
        loaded(data, *options)[0].load_dataset("test")


def test_domain_in_the_data_but_not_in_the_list(own_data: Path) -> None:
    shutil.copytree(own_data / "law", own_data / "news")
    with pytest.raises(InputError, match=r"news: not listed in .*domains\.txt"):
        loaded(own_data)[0].load_dataset("train")


def test_a_domain_younger_than_the_dictionary_is_routed_without_a_tag(own_data: Path) -> None:
    lines = ["<domain:law> w1 w2", "<domain:sub> w1 w2", "<domain:med> w3"]
    path = own_data / "dict.en.txt"
    symbols = path.read_text().splitlines(keepends=True)
    assert "domain:sub" in symbols[-1]  # so that all others keep their numbers
    task, model = loaded(own_data)
    with_tag, _ = translate_typed(task, model, lines)
    path.write_text("".join(symbols[:-1]))
    younger, _ = loaded(own_data)
    assert younger.typed_domains.indices[:2] == task.typed_domains.indices[:2]
    assert younger.typed_domains.indices[2] == len(younger.src_dict) + 2
    without, _ = translate_typed(younger, model, lines)
    assert [found["tokens"].tolist() for found in without] == [found["tokens"].tolist() for found in with_tag]
    plain, _ = translate_typed(younger, model, ["<domain:law> w1 w2"] * 3)
    assert not torch.equal(plain[1]["tokens"], without[1]["tokens"])


# The training set, and the options of fairseq's on sets


def test_the_training_set_is_like_any_other_where_nothing_trains(data: Path) -> None:
    task, _ = loaded(data)
    task.load_dataset("train")  # as fairseq-generate and fairseq-validate
    dataset = task.dataset("train")
    assert dataset.rows.tolist() == list(range(42))
    batches = dataset.batch_by_size(dataset.ordered_indices(), max_sentences=5, required_batch_size_multiple=8)
    assert sorted(np.concatenate(batches).tolist()) == list(range(42))
    assert all(len(set(dataset.domain_of(batch).tolist())) == 1 for batch in batches)
    task.load_dataset("train", combine=True)  # as fairseq's trainer
    assert len(task.dataset("train")) == 72


def test_processes_share_the_batches(data: Path) -> None:
    task, _ = loaded(data)
    task.load_dataset("valid")
    given = {"max_sentences": 2, "num_shards": 2, "disable_iterator_cache": True}
    iterators = [task.get_batch_iterator(task.dataset("valid"), **given, shard_id=shard) for shard in (0, 1)]
    ids = [[n for batch in each.next_epoch_itr() if batch for n in batch["id"].tolist()] for each in iterators]
    assert all(ids)
    assert sorted(ids[0] + ids[1]) == list(range(15))


def test_the_training_set_cannot_validate_its_own_training(data: Path) -> None:
    given = ["--valid-subset", "valid,train"]
    task, _ = loaded(data, *given)
    with pytest.raises(InputError, match="--valid-subset train: .*--valid-subset train:law,train:med,train:sub"):
        task.load_dataset("train", combine=True)
    loaded(data, *given, "--disable-validation")[0].load_dataset("train", combine=True)
    task, _ = loaded(data, "--valid-subset", "train:law")
    task.load_dataset("train:law")
    task.load_dataset("train", combine=True)
    assert (len(task.dataset("train:law")), len(task.dataset("train"))) == (24, 72)


def test_unused_validation_sets_are_refused(own_data: Path) -> None:
    toy.write_split(own_data / "med", "valid1", [("w1", "w1")], toy.make_dictionary())
    with pytest.raises(InputError, match="med: valid1 is not used; .*--valid-subset"):
        loaded(own_data)[0].load_dataset("train", combine=True)
    combined, _ = loaded(own_data, "--combine-valid-subsets")
    combined.load_dataset("train", combine=True)
    combined.load_dataset("valid", combine=True)
    assert len(combined.dataset("valid")) == 16
    assert combined.dataset("valid").repetitions is None


def test_several_data_directories_take_turns_in_training(data: Path, teacher: Path, tmp_path: Path) -> None:
    other = toy.make_data(tmp_path, sizes=(5, 4, 3), seed=9)
    task, _ = loaded(Path(f"{data}:{other}"), "--upsampling", "none")
    assert task.has_sharded_data("train")
    sizes = []
    for epoch in (1, 2, 3):
        task.load_dataset("train", epoch=epoch, combine=True)
        sizes.append(len(task.dataset("train")))
    assert sizes == [42, 12, 42]
    with pytest.raises(InputError, match="--teacher-dir"):
        loaded(Path(f"{data}:{other}"), "--teacher-dir", str(teacher))


def test_domain_tags_must_be_those_of_the_checkpoint(data: Path) -> None:
    tagged, plain = ([*options, "--share-all-embeddings"] for options in (["--domain-tags"], []))
    task, args = toy.make_task(data, *tagged, arch=MIX)
    task.build_model(args)  # as fairseq-train
    assert args.domain_tags
    other, other_args = toy.make_task(data, *plain, arch=MIX)
    with pytest.raises(InputError, match="trained with --domain-tags"):
        other.build_model(args, from_checkpoint=True)
    other.build_model(other_args)
    with pytest.raises(InputError, match="trained without --domain-tags"):
        task.build_model(other_args, from_checkpoint=True)

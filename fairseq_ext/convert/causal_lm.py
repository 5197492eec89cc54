"""Write a causal language model as a base: safetensors, its tokenizer, fairseq's dictionary and a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from fairseq_ext.convert.fairseq_model import write_checkpoint
from fairseq_ext.models.causal_lm import checksum_of, order_of
from fairseq_ext.modules.causal_models import load_causal_model, longest_text, plain_config, tokenizer_of
from fairseq_ext.modules.language_model_options import CAUSAL_LM
from fairseq_ext.modules.pretrained import CONFIG_FILE, WEIGHT_FILES
from fairseq_ext.modules.tensor_file import write_tensors
from fairseq_ext.text.model_tokenizer import ModelTokenizer

_BLOCK = 1024  # fairseq's default


def import_causal_lm(source: Path, folder: Path, final: Path, tokens_per_sample: int = _BLOCK) -> None:
    """Write a model into an existing folder. Quantised weights become float32, so that later starts are quick.

    Args:
        source: folder or GGUF file of the model.
        folder: folder to write.
        final: where it will be; ``model.pt``, a checkpoint without weights, names this place as its base.
        tokens_per_sample: usual length of blocks, at most the model's longest.
    """
    model = load_causal_model(source)
    tokenizer = ModelTokenizer(tokenizer_of(source), source)
    tokenizer.write(folder, order_of(tokenizer, model.config))
    config = json.dumps(plain_config(model.config), indent=2, sort_keys=True)
    (folder / CONFIG_FILE).write_text(config + "\n", encoding="utf-8")
    # Tied weights have several names; transformers looks for the first.
    names = {value.data_ptr(): name for name, value in reversed(model.state_dict().items())}
    weights = {name: model.state_dict()[name] for name in names.values()}
    write_tensors(folder / WEIGHT_FILES[0], weights, {"format": "pt"})
    line = ["--task", "language_modeling", "--criterion", "cross_entropy", "--arch", CAUSAL_LM]
    line += ["--tokens-per-sample", str(min(tokens_per_sample, longest_text(model.config)))]
    line += ["--base-model", str(final.resolve()), "--base-sha256", checksum_of(folder)]
    write_checkpoint(folder, {}, line, "CrossEntropyCriterion")

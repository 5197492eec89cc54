"""Write a tiny COMET model with random weights; run in COMET's environment: ``python tiny_comet.py TEXT FOLDER``."""

import sys
from pathlib import Path

import sentencepiece
import torch
import yaml
from comet.models import RegressionMetric
from transformers import XLMRobertaConfig, XLMRobertaTokenizer, XLMRobertaTokenizerFast

text, folder = sys.argv[1], Path(sys.argv[2])
encoder = folder / "encoder"
encoder.mkdir(parents=True)
(folder / "checkpoints").mkdir()
sentencepiece.SentencePieceTrainer.train(
    input=text, model_prefix=str(folder / "pieces"), vocab_size=100, hard_vocab_limit=False, minloglevel=2
)
tokenizer = XLMRobertaTokenizer(str(folder / "pieces.model"))
tokenizer.save_pretrained(encoder)
XLMRobertaTokenizerFast.from_pretrained(encoder).save_pretrained(encoder)
XLMRobertaConfig(
    vocab_size=len(tokenizer),
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=130,
).save_pretrained(encoder)
torch.manual_seed(1)
model = RegressionMetric(pretrained_model=str(encoder), load_pretrained_weights=False, hidden_sizes=[8])
checkpoint = {
    "state_dict": model.state_dict(),
    "hyper_parameters": dict(model.hparams),
    "pytorch-lightning_version": "2.6.6",
}
torch.save(checkpoint, folder / "checkpoints/model.ckpt")
# One weight short, as a checkpoint for another release of COMET may be.
del checkpoint["state_dict"]["estimator.ff.0.weight"]
torch.save(checkpoint, folder / "checkpoints/damaged.ckpt")
(folder / "hparams.yaml").write_text(yaml.safe_dump(dict(model.hparams)), encoding="utf-8")

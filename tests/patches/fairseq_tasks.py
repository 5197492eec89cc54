"""Trainings of fairseq's own tasks, run as a program: ``fairseq_tasks.py FOLDER [--user-dir DIR]``.

It prints, as JSON, what each task's training, resumed training, validation and decoding give.
"""

import contextlib
import hashlib
import io
import json
import os
import random
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

SYMBOLS = [f"w{number}" for number in range(40)]
SPLITS = ("train", "valid", "test")
LANGUAGES = ("a", "b")
SIDE = ["embed-dim", "16", "ffn-embed-dim", "16", "layers", "1", "attention-heads", "2"]
ENCODER, DECODER = (
    [f"--{side}-{word}" if at % 2 == 0 else word for at, word in enumerate(SIDE)] for side in ("encoder", "decoder")
)
# Batches are made in the process: a worker would delay the next command by ten seconds, and a thread would draw random
# numbers of denoising between those of dropout.
HERE = ["--cpu", "--batch-size", "4", "--num-workers", "0", "--data-buffer-size", "0"]
COMMON = [
    *(*HERE, "--optimizer", "adam", "--lr", "0.01", "--seed", "3"),
    *("--no-progress-bar", "--dropout", "0.1", "--no-epoch-checkpoints"),
]
PAIR = ["--source-lang", "a", "--target-lang", "b"]
TRANSFORMER = ["--arch", "transformer", *ENCODER, *DECODER]
LANGUAGE_MODEL = ["--arch", "transformer_lm", *DECODER]
ROBERTA = ["--arch", "roberta", *ENCODER]
BART = ["--arch", "bart_base", *ENCODER, *DECODER]
PAIRS = ["--lang-pairs", "a-b,b-a"]
SAMPLED = ["--multilang-sampling-alpha", "0.5"]
CLASSES = ["--num-classes", "2", "--max-positions", "32", "--no-shuffle"]
HEAD = ["--criterion", "sentence_prediction", *CLASSES, *ROBERTA]
MASKED = [*ROBERTA, "--criterion", "masked_lm", "--tokens-per-sample", "32"]
XLM = ["--arch", "xlm_base", *ENCODER, "--tokens-per-sample", "32", "--criterion", "legacy_masked_lm_loss"]
NAT = ["--arch", "nonautoregressive_transformer", *ENCODER, *DECODER, "--noise", "full_mask", "--criterion", "nat_loss"]
CONV = ["--encoder-conv-dim", "16", "--decoder-conv-dim", "16", "--encoder-kernel-size-list", "[3]"]
LIGHT = ["--arch", "lightconv", *ENCODER, *DECODER, *CONV, "--decoder-kernel-size-list", "[3]"]
FCONV = ["--arch", "fconv", "--encoder-embed-dim", "16", "--decoder-embed-dim", "16", "--decoder-out-embed-dim", "16"]
LAYERS = ["--encoder-layers", "[(16, 3)]", "--decoder-layers", "[(16, 3)]"]
LSTM = ["--arch", "lstm", "--encoder-embed-dim", "16", "--decoder-embed-dim", "16", "--encoder-hidden-size", "16"]
# Each training: data folder, and options.
TRAININGS: dict[str, tuple[str, list[str]]] = {
    "cross_lingual_lm": ("mono", [*XLM, "--monolingual-langs", "a,b"]),
    "denoising": ("text", [*BART, "--tokens-per-sample", "32", "--mask", "0.3", "--mask-length", "subword"]),
    "language_modeling": ("text", [*LANGUAGE_MODEL, "--tokens-per-sample", "16"]),
    "legacy_masked_lm": ("text", XLM),
    "masked_lm": ("text", MASKED),
    "multilingual_denoising": ("mono", [*BART, "--tokens-per-sample", "32", "--mask", "0.3"]),
    "multilingual_language_modeling": ("mono", [*LANGUAGE_MODEL, "--tokens-per-sample", "16", *SAMPLED]),
    "multilingual_masked_lm": ("mono", MASKED),
    "multilingual_translation": ("text", [*TRANSFORMER, *PAIRS, "--arch", "multilingual_transformer"]),
    "online_backtranslation": ("mono", [*TRANSFORMER, "--mono-langs", "a,b", "--valid-lang-pairs", "a-b"]),
    "semisupervised_translation": ("text", [*TRANSFORMER, "--lang-pairs", "a-b", "--arch", "multilingual_transformer"]),
    "sentence_prediction": ("classes", HEAD),
    "sentence_prediction_adapters": (
        "classes",
        [*HEAD, "--criterion", "sentence_prediction_adapters", "--arch", "xmod_base_13"],
    ),
    "sentence_ranking": ("classes", [*ROBERTA, "--criterion", "sentence_ranking", *CLASSES]),
    "simul_text_to_text": ("text", [*TRANSFORMER, *PAIR]),
    "span_masked_lm": ("text", [*BART, "--tokens-per-sample", "32"]),
    "translation": ("text", [*TRANSFORMER, *PAIR]),
    "translation_from_pretrained_bart": ("text", [*TRANSFORMER, *PAIR, "--langs", "a,b"]),
    "translation_from_pretrained_xlm": ("text", [*TRANSFORMER, *PAIR]),
    "translation_lev": ("text", [*NAT, *PAIR]),
    "translation_multi_simple_epoch": ("pairs", [*TRANSFORMER, *PAIRS, "--encoder-langtok", "src"]),
    "dummy_lm": ("", [*LANGUAGE_MODEL, "--tokens-per-sample", "16", "--dict-size", "30", "--dataset-size", "16"]),
    "dummy_masked_lm": ("", [*MASKED, "--dict-size", "30", "--dataset-size", "16"]),
    "dummy_mt": ("", [*TRANSFORMER, "--dict-size", "30", "--dataset-size", "16", "--src-len", "8", "--tgt-len", "8"]),
    # other models and criterions
    "translation, lstm": ("text", [*LSTM, *PAIR, "--decoder-hidden-size", "16", "--decoder-out-embed-dim", "16"]),
    "translation, fconv": ("text", [*FCONV, *LAYERS, *PAIR]),
    "translation, lightconv": ("text", [*LIGHT, *PAIR]),
    "translation, label_smoothed_cross_entropy_with_rdrop": (
        "text",
        [*TRANSFORMER, *PAIR, "--criterion", "label_smoothed_cross_entropy_with_rdrop"],
    ),
}
DECODED = [task for task in TRAININGS if "translation" in task and "online" not in task]


def write_data(folder: Path) -> None:
    """Write binarised text, text by language, and labelled text."""
    from fairseq.data import Dictionary

    chance = random.Random(1)
    dictionary = Dictionary()
    for symbol in SYMBOLS:
        dictionary.add_symbol(symbol, n=50)
    labels = Dictionary()
    for label in ("0", "1"):
        labels.add_symbol(label, n=50)
    dictionaries = ["text/dict.txt", "text/dict.a.txt", "text/dict.b.txt", "mono/dict.txt", "mono/dict.a.txt"]
    dictionaries += ["pairs/dict.txt", "pairs/dict.a.txt", "pairs/dict.b.txt"]
    for name in [*dictionaries, "mono/dict.b.txt", "classes/dict.txt", "classes/input0/dict.txt"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        dictionary.save(str(folder / name))
    (folder / "classes/label").mkdir()
    labels.save(str(folder / "classes/label/dict.txt"))
    pair = [f"{{split}}.a-b.{language}" for language in LANGUAGES]
    texts = [
        "text/{split}",
        *(f"text/{name}" for name in pair),
        *(f"{root}/{name}" for root in ("mono", "pairs") for name in pair),
    ]
    texts += [f"mono/{language}/{{split}}" for language in LANGUAGES]
    texts += ["classes/input0/{split}", "classes/input1/{split}", "classes/input2/{split}"]
    for split in SPLITS:
        for name in texts:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            count = 48 if name.startswith("mono/b/") else 64
            lines = [" ".join(chance.choices(SYMBOLS, k=chance.randint(3, 8))) for _ in range(count)]
            _binarise(folder / name.format(split=split), dictionary, lines)
        answers = [chance.choice("01") for _ in range(64)]
        _binarise(folder / f"classes/label/{split}", labels, answers, append_eos=False)
        (folder / f"classes/label/{split}.label").write_text("\n".join(answers) + "\n", encoding="utf-8")


def _binarise(path: Path, dictionary: Any, lines: list[str], **options: Any) -> None:
    from fairseq.data import indexed_dataset

    path.parent.mkdir(parents=True, exist_ok=True)
    builder = indexed_dataset.make_builder(f"{path}.bin", impl="mmap", vocab_size=len(dictionary))
    for line in lines:
        builder.add_item(dictionary.encode_line(line, add_if_not_exist=False, **options))
    builder.finalize(f"{path}.idx")


def run_training(name: str, folder: Path, run: Path, own: list[str], results: dict[str, Any]) -> None:
    """Train two updates, resume for a third, validate, and translate the test set; each adds to the results.

    The weights are without ``conv_bias`` of lightconv, which fairseq neither initialises nor uses.
    """
    import torch
    from fairseq_cli import generate, train, validate

    data, options = TRAININGS[name]
    place = [str(folder / data)] if data else []
    task = ["--task", name.partition(",")[0], *own]
    words = [*place, *COMMON, *options, *task, "--save-dir", str(run)]
    path = run / "checkpoint_last.pt"
    for updates in (2, 3):
        _command(train.cli_main, [*words, "--max-update", str(updates)])
        state = torch.load(path, weights_only=False)
        content = io.BytesIO()
        weights = sorted((key, value.tolist()) for key, value in state["model"].items() if "conv_bias" not in key)
        torch.save(weights, content)
        results[f"loss after {updates}"] = state["extra_state"]["val_loss"]
        results[f"weights after {updates}"] = hashlib.sha256(content.getvalue()).hexdigest()
    criterion = options[options.index("--criterion") :][:2] if "--criterion" in options else []
    valid = _command(validate.cli_main, [*place, *HERE, "--path", str(path), *task, *criterion])
    results["validation"] = [line.partition(" | ")[2] for line in valid.splitlines() if " | valid | " in line]
    if name in DECODED:
        languages = [word for word in options if word in ("--langs", "--lang-pairs", "--encoder-langtok")]
        kept = [word for option in languages for word in (option, options[options.index(option) + 1])]
        words = [*place, *HERE, "--path", str(path), *task, *PAIR, *kept]
        decoded = _command(generate.cli_main, [*words, "--beam", "2"])
        results["translations"] = [line for line in decoded.splitlines() if line.startswith(("H-", "P-"))]


def _command(main: Callable[[], Any], words: list[str]) -> str:
    sys.argv[1:] = words
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(str(end.code) if isinstance(end.code, str) else out.getvalue()[-400:]) from None
    return out.getvalue()


def run_apart(name: str, folder: Path, run: Path, own: list[str]) -> Any:
    """Run it in a forked process, because tasks of fairseq change what is registered."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        found: dict[str, Any] = {}
        try:
            run_training(name, folder, run, own, found)
        except BaseException:
            found["error"] = traceback.format_exc().splitlines()[-1]
        with os.fdopen(writer, "w") as file:
            json.dump(found, file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = json.load(file)
    os.wait()
    return found


def main() -> None:
    folder, *own = sys.argv[1:]
    data, place = Path(folder) / "data", "with" if own else "without"
    import torch
    from fairseq import options
    from fairseq_cli import generate, train, validate  # noqa: F401

    torch.set_num_threads(1)
    sys.argv[1:] = own
    options.get_training_parser()  # which imports the user directory
    if not data.exists():
        write_data(data)
    for number, name in enumerate(TRAININGS):
        print(json.dumps([name, run_apart(name, data, Path(folder) / place / str(number), own)]), flush=True)


if __name__ == "__main__":
    main()

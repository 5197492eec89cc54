"""A toy world for tests: a few words, a few domains, binarised as the task expects it."""

import copy
import functools
import random
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils, options, tasks, utils
from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf, omegaconf_no_object_check
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from omegaconf import DictConfig, OmegaConf

import tests.fairseq_ready  # noqa: F401

USER_DIR = str(Path(__file__).resolve().parents[1] / "fairseq_ext")
DOMAINS = ["law", "med", "sub"]
WORDS = [f"w{i}" for i in range(20)]


def make_dictionary(domains: list[str] = DOMAINS) -> Dictionary:
    dictionary = Dictionary()
    for symbol in WORDS + [f"<domain:{name}>" for name in domains]:
        dictionary.add_symbol(symbol)
    return dictionary


def random_pairs(count: int, rng: random.Random) -> list[tuple[str, str]]:
    """Pairs of which the target is the source turned round."""
    sources = [" ".join(rng.choices(WORDS, k=rng.randint(1, 8))) for _ in range(count)]
    return [(source, " ".join(reversed(source.split()))) for source in sources]


def write_text(prefix: Path, count: int, seed: int) -> Path:
    """Pairs in ``PREFIX.en`` and ``PREFIX.pl``."""
    pairs = random_pairs(count, random.Random(seed))
    for side, lang in enumerate(("en", "pl")):
        prefix.with_name(f"{prefix.name}.{lang}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    return prefix


def write_split(
    directory: Path, split: str, pairs: list[tuple[str, str]], dictionary: Dictionary, impl: str = "mmap"
) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for language, side in (("en", 0), ("pl", 1)):
        text = directory / f"{split}.{language}"
        text.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
        FileBinarizer.multiprocess_dataset(
            str(text),
            impl,
            VocabularyDatasetBinarizer(dictionary, append_eos=True),
            str(directory / f"{split}.en-pl.{language}"),
            vocab_size=len(dictionary),
            num_workers=1,
        )
        text.unlink()


def make_data(
    root: Path, domains: list[str] = DOMAINS, sizes: tuple[int, ...] = (24, 12, 6), impl: str = "mmap", seed: int = 7
) -> Path:
    """A data directory with splits train, valid and test; returns it."""
    data = root / "data-bin"
    dictionary = make_dictionary(domains)
    rng = random.Random(seed)
    for name, size in zip(domains, sizes, strict=True):
        for split, count in (("train", size), ("valid", 5), ("test", 4)):
            write_split(data / name, split, random_pairs(count, rng), dictionary, impl)
    for language in ("en", "pl"):
        dictionary.save(str(data / f"dict.{language}.txt"))
    (data / "domains.txt").write_text("".join(f"{name}\n" for name in domains), encoding="utf-8")
    return data


def make_teacher(
    root: Path, domains: list[str] = DOMAINS, sizes: tuple[int, ...] = (24, 12, 6), has_base: bool = False
) -> Path:
    """Teacher labels for that data: mostly the true domain; with a class for the base, half of the sentences' own."""
    from fairseq_ext.data.teacher_labels import label_path, write_probs, write_teacher_record

    teacher = root / "teacher"
    rng = np.random.default_rng(3)
    for d, (name, size) in enumerate(zip(domains, sizes, strict=True)):
        for split, count in (("train", size), ("valid", 5), ("test", 4)):
            logits = rng.normal(size=(count, len(domains)))
            logits[:, d] += 3
            if has_base:
                logits = np.concatenate([logits, 5.0 * (np.arange(count) % 2)[:, None]], 1)
            probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
            write_probs(label_path(teacher, name, split), probs)
    write_teacher_record(teacher, domains, "toy", {}, **({"has_base": True} if has_base else {}))
    return teacher


def train_args(data: Path, *extra: str, arch: str = "transformer_gated_adapter_tiny") -> Namespace:
    # fmt: off
    return parsed(
        data, "--task", "multi_domain_translation", "--arch", arch, "--cpu",
        "--optimizer", "adam", "--lr", "0.01", "--max-tokens", "200", *extra,
    )
    # fmt: on


def parsed(data: Path, *words: str) -> Namespace:
    """Options of fairseq-train for some data; fairseq, which takes its time, reads each line once."""
    args = copy.deepcopy(_parse(words))
    args.data = str(data)
    return args


@functools.cache
def _parse(words: tuple[str, ...]) -> Namespace:
    utils.import_user_module(Namespace(user_dir=USER_DIR))
    return options.parse_args_and_arch(options.get_training_parser(), ["data", "--user-dir", USER_DIR, *words])


def make_task(data: Path, *extra: str, **kwargs: Any) -> tuple[Any, Namespace]:
    """The task as the command line would set it up, and the parsed arguments."""
    args = train_args(data, *extra, **kwargs)
    return tasks.setup_task(args), args


def model_options(args: Namespace) -> Any:
    """The model's part of parsed arguments; fairseq's own way, by Hydra, takes a second or so."""
    name = ARCH_MODEL_NAME_REGISTRY[args.arch]
    found = MODEL_DATACLASS_REGISTRY[name].from_namespace(args)
    found._name = name
    if hasattr(found, "base_shuffle"):
        found.base_shuffle = int(found.base_shuffle)  # fairseq's default is of another type than it says
    return OmegaConf.structured(found)


# What says which options there are.
_COMPONENTS = ("task", "arch", "criterion", "optimizer", "lr_scheduler", "scoring", "bpe", "tokenizer")
_COMPOSED: dict[Any, tuple[dict[str, Any], Any]] = {}


def composed(args: Namespace) -> Any:
    """Parsed arguments as fairseq's commands get them; Hydra, which takes half a second, composes each kind once.

    A line that differs from an earlier one in values only is that one with these values, wherever they are kept.
    """
    kind = (frozenset(vars(args)), tuple(getattr(args, name, None) for name in _COMPONENTS))
    if kind not in _COMPOSED:
        _COMPOSED[kind] = copy.deepcopy(vars(args)), convert_namespace_to_omegaconf(args)
    earlier, config = copy.deepcopy(_COMPOSED[kind])
    changed = {name: value for name, value in vars(args).items() if value != earlier[name]}
    with omegaconf_no_object_check():
        for key, section in list(config.items()):
            if isinstance(section, Namespace):
                config[key] = Namespace(**{**vars(section), **changed})
            elif isinstance(section, DictConfig):
                section.update({name: changed[name] for name in section if name in changed})
    return config


def make_model(task: Any, args: Namespace, seed: int = 1, train: bool = False) -> Any:
    torch.manual_seed(seed)
    return task.build_model(args).train(train)


def randomise_adapters(model: Any, seed: int = 5) -> None:
    """Give adapters and gates values far from the near-identity start, so that they matter."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".adapter." in name:
                parameter.normal_(std=0.5)


def write_checkpoint(path: Path, args: Namespace, model: Any) -> Path:
    """A checkpoint such as fairseq's trainer writes."""
    config = OmegaConf.to_container(composed(args), resolve=True, enum_to_str=True)
    history = {"num_updates": 3, "best_loss": 1.0, "criterion_name": "", "optimizer_name": ""}
    state = {"args": None, "cfg": config, "model": model.state_dict(), "optimizer_history": [history]}
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({**state, "extra_state": {}, "last_optimizer_state": {"state": {}}}, path)
    return path


def load(path: Path, data: Path | None = None) -> tuple[Any, Any]:
    """A checkpoint's model as fairseq's commands load it, and its task over data, by default beside the checkpoint."""
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data or path.parent)})
    return models[0].eval(), task


def first_batch(task: Any, split: str = "valid", max_sentences: int = 8) -> dict:
    if split not in task.datasets:
        task.load_dataset(split)
    dataset = task.datasets[split]
    return dataset.collater([dataset[i] for i in range(min(max_sentences, len(dataset)))])

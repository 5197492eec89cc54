"""Continuations of prompts by a language model."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.data import encoders
from fairseq.dataclass.configs import GenerationConfig
from tqdm import tqdm

from fairseq_ext.corpora.encoders import fairseq_bpe_options
from fairseq_ext.inputs.errors import InputError

_BATCH = 32  # prompts


def choose_prompts(lines: Iterable[str], num_words: int, count: int, where: str) -> list[tuple[str, str]]:
    """The first ``num_words`` words of the first ``count`` lines that have at least twice as many, and the rest."""
    prompts: list[tuple[str, str]] = []
    for line in lines:
        words = line.split()
        if len(words) >= 2 * num_words and len(prompts) < count:
            prompts.append((" ".join(words[:num_words]), " ".join(words[num_words:])))
    if not prompts:
        raise InputError(f"{where}: no line has {2 * num_words} words; lower topics: prompt_words")
    return prompts


def continue_prompts(
    model: Any,
    task: Any,
    data: Path,
    prompts: Sequence[str],
    *,
    max_len: int,
    temperature: float,
    top_k: int,
    seed: int,
) -> list[str]:
    """The continuation of each prompt, up to the end of the line, sampled by fairseq's own generator.

    A text has ``max_len`` tokens at most, with the prompt and without the end of the line. ``data`` has the subwords.
    """
    options = {key.replace("-", "_"): value for key, value in fairseq_bpe_options(data).items()}
    bpe, source = encoders.build_bpe(Namespace(**options)), task.source_dictionary
    tokens = [source.encode_line(bpe.encode(prompt), add_if_not_exist=False).long() for prompt in prompts]
    if max(map(len, tokens)) > max_len:
        raise InputError(f"topics: max_len: {max_len} leaves no room after the longest prompt; raise it")
    generation = GenerationConfig(
        beam=1, sampling=True, sampling_topk=top_k, temperature=temperature, max_len_a=0, max_len_b=max_len
    )
    generator = task.build_generator([model], generation)
    torch.manual_seed(seed)
    texts = [""] * len(prompts)
    # Prompts of equal length together, so that no text of a batch starts before another.
    order = sorted(range(len(tokens)), key=lambda number: len(tokens[number]))
    for start in tqdm(range(0, len(order), _BATCH), desc="write", unit=" batches", leave=False, disable=None):
        numbers = order[start : start + _BATCH]
        batch = [tokens[number] for number in numbers]
        dataset = task.build_dataset_for_inference(batch, [len(prompt) for prompt in batch])
        sample = dataset.collater([dataset[place] for place in range(len(batch))])
        sample = utils.move_to_cuda(sample) if next(model.parameters()).is_cuda else sample
        for number, (best, *_) in zip(numbers, task.inference_step(generator, [model], sample), strict=True):
            # The end of the prompt was not read; the text has its own.
            written = best["tokens"][len(tokens[number]) - 1 :].cpu()
            texts[number] = bpe.decode(task.target_dictionary.string(written)).strip()
    return texts

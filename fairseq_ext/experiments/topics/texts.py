"""Text generation with a language model: continuations of prompts, and their metrics in percent."""

from __future__ import annotations

import statistics
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import utils
from fairseq.data import encoders
from fairseq.dataclass.configs import GenerationConfig
from nltk.translate.meteor_score import meteor_score
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from tqdm import tqdm

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.topics.config import METEOR, Evaluation
from fairseq_ext.text.encoders import fairseq_bpe_options

_BATCH = 32  # prompts
_tokenize = Tokenizer13a()


def choose_prompts(lines: Iterable[str], num_words: int, count: int, where: str) -> list[tuple[str, str]]:
    """Split lines into prompts and references.

    A prompt is the first ``num_words`` words of a line, the reference is the rest of it. The first ``count`` lines with
    at least ``2 * num_words`` words are used.
    """
    prompts: list[tuple[str, str]] = []
    for line in lines:
        words = line.split()
        if len(words) >= 2 * num_words and len(prompts) < count:
            prompts.append((" ".join(words[:num_words]), " ".join(words[num_words:])))
    if not prompts:
        raise InputError(f"{where}: no line has {2 * num_words} or more words; lower topics: prompt_words")
    return prompts


def continue_prompts(
    model: Any, task: Any, data: Path, prompts: Sequence[str], how: Evaluation, seed: int
) -> list[str]:
    """Continue each prompt to the end of the line, by sampling with fairseq's generator.

    A text has at most ``max_len`` tokens, including the prompt and excluding the end of the line. ``data`` is the
    directory of the subwords.
    """
    options = {key.replace("-", "_"): value for key, value in fairseq_bpe_options(data).items()}
    bpe, source = encoders.build_bpe(Namespace(**options)), task.source_dictionary
    tokens = [source.encode_line(bpe.encode(prompt), add_if_not_exist=False).long() for prompt in prompts]
    if max(map(len, tokens)) > how.max_len:
        raise InputError(f"topics: max_len: {how.max_len} leaves no room after the longest prompt; raise it")
    sampling = {"sampling": True, "sampling_topk": how.top_k, "temperature": how.temperature}
    generation = GenerationConfig(beam=1, max_len_a=0, max_len_b=how.max_len, **sampling)
    generator = task.build_generator([model], generation)
    torch.manual_seed(seed)
    texts = [""] * len(prompts)
    # Sort by length, so that the texts of a batch start at similar positions.
    order = sorted(range(len(tokens)), key=lambda number: len(tokens[number]))
    for start in tqdm(range(0, len(order), _BATCH), desc="write", unit=" batches", leave=False, disable=None):
        numbers = order[start : start + _BATCH]
        batch = [tokens[number] for number in numbers]
        dataset = task.build_dataset_for_inference(batch, [len(prompt) for prompt in batch])
        sample = dataset.collater([dataset[place] for place in range(len(batch))])
        sample = utils.move_to_cuda(sample) if next(model.parameters()).is_cuda else sample
        for number, (best, *_) in zip(numbers, task.inference_step(generator, [model], sample), strict=True):
            # Remove the prompt. Its end of sentence is not part of the generated tokens.
            written = best["tokens"][len(tokens[number]) - 1 :].cpu()
            texts[number] = bpe.decode(task.target_dictionary.string(written)).strip()
    return texts


# Metrics


def text_metrics(texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Compute the metrics ``TEXT_METRICS``, with one reference per text."""
    return {
        **{f"Dist-{n}": distinct_share(texts, n) for n in (2, 3)},
        **{f"BLEU-{n}": bleu(texts, references, n) for n in (2, 3)},
        METEOR: meteor(texts, references),
        "ROUGE-L": rouge_l(texts, references),
    }


def distinct_share(texts: Sequence[str], n: int) -> float:
    """Compute Dist-n (Li et al., 2016): the share of distinct word n-grams in all texts; 0 without n-grams."""
    lines = map(words_of, texts)
    grams = [tuple(words[start : start + n]) for words in lines for start in range(len(words) - n + 1)]
    return 100 * len(set(grams)) / len(grams) if grams else 0.0


def bleu(texts: Sequence[str], references: Sequence[str], n: int) -> float:
    """Compute corpus BLEU with n-grams up to length ``n``."""
    # ``force`` only suppresses the warning about tokenised text.
    return float(BLEU(max_ngram_order=n, force=True).corpus_score(list(texts), [list(references)]).score)


def rouge_l(texts: Sequence[str], references: Sequence[str]) -> float:
    """Compute the mean F-score of ROUGE-L."""
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    scores = (scorer.score(reference, text) for text, reference in zip(texts, references, strict=True))
    return 100 * statistics.fmean(score["rougeL"].fmeasure for score in scores)


def meteor(texts: Sequence[str], references: Sequence[str]) -> float:
    """Compute mean METEOR with exact and stem matches."""
    pairs = zip(texts, references, strict=True)
    no_synonyms: Any = SimpleNamespace(synsets=lambda word: [])  # replaces WordNet
    scores = (meteor_score([words_of(ref)], words_of(text), wordnet=no_synonyms) for text, ref in pairs)
    return 100 * statistics.fmean(scores)


def words_of(text: str) -> list[str]:
    """Split text into lower-case words and punctuation marks, with BLEU's tokeniser."""
    return str(_tokenize(text)).lower().split()

"""The step that looks, before anything is trained, whether topic models can be measured on the text: ``topic-texts``.

``texts.json`` has by domain how many lines topics get their words from, how many words can stand for one, how many
test lines are written on, and how many tokens are given of these at most.
"""

from __future__ import annotations

import json
from pathlib import Path

from fairseq_ext.corpora.text_files import stream_lines
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.topics.config import TopicEvaluation, TopicExperiment
from fairseq_ext.recipes.language_models import DATA_DIR
from fairseq_ext.text.byte_level_bpe import VOCAB_FILE, read_spellings
from fairseq_ext.text.encoders import load_encoder
from fairseq_ext.text.line_split import text_path

TEXTS_FILE = "texts.json"
_VERSION = 1


def texts_step(experiment: TopicExperiment) -> Step:
    """The step that looks at the text of all domains that systems are adapted to."""
    work_dir, evaluation, domains = experiment.work_dir, experiment.topics, experiment.comparison.domains
    texts = [path for name in domains for path in _texts(work_dir, name)]
    keys = ("lines", "min_count", "prompts", "prompt_words", "max_len")
    options = {"version": _VERSION, "seed": experiment.seed, **{key: getattr(evaluation, key) for key in keys}}

    def build(folder: Path) -> None:
        found = {name: look_at(work_dir, name, evaluation, experiment.seed) for name in domains}
        (folder / TEXTS_FILE).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")

    return Step(work_dir / "topic-texts", [*texts, work_dir / DATA_DIR], options, build)


def look_at(work_dir: Path, domain: str, evaluation: TopicEvaluation, seed: int) -> dict[str, int]:
    """What there is of a domain to measure topics on.

    Raises:
        InputError: if no word can stand for a topic, no line is long enough to be written on, or what is given of one
            leaves no room.
    """
    from fairseq_ext.experiments.topics.continuations import choose_prompts, room_for
    from fairseq_ext.experiments.topics.word_corpus import read_word_corpus

    encoded, plain = _texts(work_dir, domain)
    data = work_dir / DATA_DIR
    spellings = read_spellings(data / VOCAB_FILE) if (data / VOCAB_FILE).is_file() else {}
    corpus = read_word_corpus(
        encoded, domain, count=evaluation.lines, min_count=evaluation.min_count, seed=seed, spellings=spellings
    )
    prompts = choose_prompts(stream_lines(plain), evaluation.prompt_words, evaluation.prompts, str(plain))
    longest = max(len(line.split()) + 1 for line in load_encoder(data)([prompt.text for prompt in prompts]))
    room_for(longest, evaluation.max_len)
    return {
        "lines": len(corpus.documents),
        "candidates": len(corpus.words),
        "prompts": len(prompts),
        "longest_prompt": longest,
    }


def _texts(work_dir: Path, domain: str) -> tuple[Path, Path]:
    """The domain's training text in pieces, and its test text as it is written."""
    return text_path(work_dir / "encoded", domain, "train"), text_path(work_dir / "splits", domain, "test")

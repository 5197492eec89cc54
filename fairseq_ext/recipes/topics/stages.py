"""From text by domain to topic models and their report, as stages.

The preparation is that of language models, and ``topic-texts``: by domain, how many lines topics get their words from,
how many words can stand for a topic, how many test lines are continued, and how many tokens of these are given.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fairseq_ext.corpora.line_split import text_path
from fairseq_ext.engine.stages import Stage
from fairseq_ext.engine.steps import Step
from fairseq_ext.engine.tasks import THIS_MACHINE, Engine
from fairseq_ext.inputs.json_file import write_json
from fairseq_ext.recipes.language_models import DATA_DIR, preparation_steps, training_step, training_steps
from fairseq_ext.recipes.registry import Recipe
from fairseq_ext.recipes.topics.config import Topics
from fairseq_ext.recipes.topics.measurement import prompts_of, topic_steps, word_corpus
from fairseq_ext.recipes.topics.report import report

TEXTS_FILE = "texts.json"
_TEXTS_VERSION = 1


def stages_of(config: Topics) -> list[Stage]:
    """The stages of an experiment, in order; every system is one, under its own name."""
    train = partial(training_step, config)
    return [
        Stage("prepare", partial(prepare, config)),
        *(Stage(name, partial(training_steps, config, name, train), early=True) for name in config.systems),
        Stage("topics", partial(topic_steps, config)),
        Stage("report", lambda: [report(config)]),
    ]


def prepare(config: Topics, engine: Engine = THIS_MACHINE) -> list[Step]:
    """The steps of the preparation, in order; all write below ``config.work_dir``."""
    return [*preparation_steps(config, engine), texts_step(config)]


def texts_step(config: Topics) -> Step:
    """The step ``topic-texts``: without it, text on which no topic can be measured would be noticed after training."""
    names = [("encoded", "train"), ("splits", "test")]
    texts = [text_path(config.work_dir / folder, domain, role) for domain in config.domains for folder, role in names]
    keys = {"lines", "min_count", "prompts", "prompt_words", "max_len"}
    options = {"version": _TEXTS_VERSION, "seed": config.seed, **config.topics.model_dump(include=keys)}

    def build(folder: Path) -> None:
        found = {domain: look_at(config, domain) for domain in config.domains}
        write_json(folder / TEXTS_FILE, found)

    return Step(config.work_dir / "topic-texts", [*texts, config.work_dir / DATA_DIR], options, build)


def look_at(config: Topics, domain: str) -> dict[str, int]:
    """What a domain has to measure topics on; raises InputError if that is too little."""
    # Loads fairseq.
    from fairseq_ext.corpora.encoders import load_encoder
    from fairseq_ext.recipes.topics.continuations import check_prompt_length

    corpus, prompts = word_corpus(config, domain), prompts_of(config, domain)
    encode = load_encoder(config.work_dir / DATA_DIR)
    longest = max(len(line.split()) + 1 for line in encode([prompt.text for prompt in prompts]))
    check_prompt_length(longest, config.topics.max_len)
    return {
        "lines": len(corpus.documents),
        "candidates": len(corpus.words),
        "prompts": len(prompts),
        "longest_prompt": longest,
    }


RECIPE = Recipe(Topics, prepare, stages_of)

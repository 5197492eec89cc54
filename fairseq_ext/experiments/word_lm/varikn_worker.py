"""varikn in a process of its own: what goes wrong there ends the process, and it says much on stderr.

``python -m fairseq_ext.experiments.word_lm.varikn_worker TEXT ARPA ORDER HELD_OUT``; HELD_OUT may be empty.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

# What an n-gram costs. Growing and pruning keep the n-grams that are worth more than they cost: here, all of them.
_COST = -1e6
_ALL_WORDS = -1
_THREE_DISCOUNTS = True


def main(arguments: Sequence[str]) -> None:
    """Train a model and write it."""
    text, arpa, order, held_out = arguments
    full_model(text, int(order), held_out).write_file(arpa, True)


def full_model(text: str, order: int, held_out: str) -> Any:
    """A model of modified Kneser-Ney smoothing that has all n-grams of a text, with the discounts of a held-out one."""
    from varikn import VarigramTrainer

    trainer = VarigramTrainer(_THREE_DISCOUNTS)
    trainer.set_datacost_scale(_COST)
    trainer.set_datacost_scale2(_COST)
    trainer.set_max_order(order)
    trainer.initialize(text, 0, 0, _ALL_WORDS, held_out, "<s>", False, "")
    trainer.grow(1)
    return trainer


if __name__ == "__main__":
    main(sys.argv[1:])

"""Commands by the names they had before kinds: each says what took its place and runs that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq_ext.experiments import prepare, run
from fairseq_ext.inputs.errors import run_command


@dataclass(frozen=True)
class _Old:
    """What became of a command.

    Attributes:
        now: the command that took its place.
        main: that command's.
        kind: of a file that does not say, by its content.
        first: arguments that the new command needs besides.
    """

    now: str
    main: Callable[..., None]
    kind: Callable[[Mapping[str, Any]], str]
    first: tuple[str, ...] = ()


def _language_models(content: Mapping[str, Any]) -> str:
    return "topics" if content.get("topics") is not None else "hierarchy"


_RUN, _PREPARE = "scripts/run_experiment.sh", "data-prep/prepare.py"
OLD_NAMES = {
    "run_lm_experiment.sh": _Old(_RUN, run.main, _language_models),
    "run_dagru_experiment.sh": _Old(_RUN, run.main, lambda _: "recurrent"),
    "run_classification_experiment.sh": _Old(_RUN, run.main, lambda _: "classification"),
    "evaluate_topics.py": _Old(_RUN, run.main, lambda _: "topics", ("--from", "topics")),
    "prepare_lm.py": _Old(_PREPARE, prepare.main, _language_models),
    "prepare_classification.py": _Old(_PREPARE, prepare.main, lambda _: "classification"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that took the place of the one named first."""
    name, *rest = sys.argv[1:] if arguments is None else arguments
    old = OLD_NAMES[name]
    print(
        f"{name} is now {' '.join([old.now, 'FILE', *old.first])}, with the kind of the experiment in its file "
        "(kind: hierarchy, topics, classification or recurrent); this name goes with the next release.",
        file=sys.stderr,
    )
    old.main([*rest, *old.first], old.kind)


if __name__ == "__main__":
    run_command(main)

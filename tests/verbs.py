"""Commands in the process of a test: ``verb("train")(["my.yaml", "gad"])`` for ``fairseq-ext train my.yaml gad``."""

from collections.abc import Callable, Sequence

from fairseq_ext.cli.main import run_verb


def verb(*names: str) -> Callable[[Sequence[str]], None]:
    """The command of a verb, given its options."""
    return lambda options=(): run_verb([*names, *options])

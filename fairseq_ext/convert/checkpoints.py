"""From checkpoints of others to one of this project's, and from such a one to one of fairseq's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from fairseq_ext.convert.domain_export import unfold
from fairseq_ext.convert.fairseq_checkpoint import write_checkpoint
from fairseq_ext.convert.language_options import language_options
from fairseq_ext.convert.merged_adapters import Source, merge, read_own
from fairseq_ext.convert.parity_check import check_agreement
from fairseq_ext.convert.published_adapters import is_published, read_published
from fairseq_ext.convert.shape_check import check_complete, task_arguments
from fairseq_ext.convert.transformer import Imported, read_transformer
from fairseq_ext.domains.names import DOMAINS_FILE
from fairseq_ext.engine.fairseq_cli import quieten_fairseq
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.patches.checkpoints import read_foreign_checkpoint
from fairseq_ext.training.freezing import is_adapter_key

OPTIONS_FILE = "options.txt"


def import_checkpoints(
    sources: Sequence[tuple[str | None, Path]], folder: Path, renamed: Mapping[str, str], outputs: Path | None
) -> None:
    """Convert a checkpoint, or merge several.

    Args:
        sources: checkpoints, each with the only adapter that is wanted of it, or None for all.
        folder: where to write ``model.pt``; it must exist. Beside it ``domains.txt`` names adapters, and
            ``options.txt`` has the options that language tokens of a base need.
        renamed: adapters of the published code that are to be called otherwise.
        outputs: what the original computed, to be compared; None for nothing.

    Raises:
        InputError: naming the file, and what in it is missing, unknown, or of another kind.
    """
    quieten_fairseq()
    models = [(name, path, *read_checkpoint(path, renamed)) for name, path in sources]
    _, path, imported, options = models[0]
    if len(models) > 1 or sources[0][0] is not None:
        imported = merge([Source(path, model, name) for name, path, model, _ in models])
    if outputs is not None:
        print(f"agrees with {outputs} to {check_agreement(imported, outputs):.1e}", file=sys.stderr)
    arguments = [*task_arguments(imported, _languages(path, options)), *imported.arguments]
    write_checkpoint(folder, imported.weights, arguments, "LabelSmoothedCrossEntropyCriterion")
    if imported.names:
        (folder / DOMAINS_FILE).write_text("".join(f"{name}\n" for name in imported.names), encoding="utf-8")
    elif line := language_options(options):
        (folder / OPTIONS_FILE).write_text(" ".join(line) + "\n", encoding="utf-8")


def export_domain(checkpoint: Path, domain: str, folder: Path) -> None:
    """Write one domain of a checkpoint with plain adapters as a plain Transformer.

    Args:
        checkpoint: with plain adapters.
        domain: one of their names.
        folder: where to write ``model.pt``; it must exist.

    Raises:
        InputError: naming the file, and why it has no such model.
    """
    quieten_fairseq()
    imported, options = read_checkpoint(checkpoint, {})
    try:
        plain = unfold(imported, domain)
        check_complete(plain)
    except InputError as error:
        raise InputError(f"{checkpoint}: {error}") from None
    arguments = [*task_arguments(plain, _languages(checkpoint, options)), *plain.arguments]
    write_checkpoint(folder, plain.weights, arguments, "LabelSmoothedCrossEntropyCriterion")


def read_checkpoint(path: Path, renamed: Mapping[str, str]) -> tuple[Imported, dict[str, Any]]:
    """What a checkpoint holds, complete, and its options."""
    weights, options = read_foreign_checkpoint(path)
    try:
        imported = _recognised(weights, options, renamed)
        check_complete(imported)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return imported, options


def _recognised(weights: dict[str, Tensor], options: dict[str, Any], renamed: Mapping[str, str]) -> Imported:
    if is_published(weights):
        return read_published(weights, options, renamed)
    if renamed:
        raise InputError("--rename: is for adapters of the published code, which this has not")
    if any(is_adapter_key(name) for name in weights):
        return read_own(weights, options)
    language_options(options)
    return read_transformer(weights, options)


def _languages(path: Path, options: Mapping[str, Any]) -> list[str | None]:
    found = [options.get(name) for name in ("source_lang", "target_lang")]
    for language in found:
        if not isinstance(language, str | None) or (language or "").startswith("-"):
            raise InputError(f"{path}: its languages are {shown(found)}, expected their names")
    return found

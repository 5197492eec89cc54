"""Whether an imported model computes what its own code computed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_ext.convert.transformer import Imported
from fairseq_ext.inputs.array_file import read_arrays
from fairseq_ext.inputs.errors import InputError

TOLERANCE = 1e-4
_REMEDY = "give the outputs that the original code wrote"
_INPUTS = ("src_tokens", "src_lengths", "prev_output_tokens", "target")
_DOMAINS = "domains"
_OUTPUTS = re.compile(r"eval\.(encoder_out|target_log_probs|(encoder|decoder)_gate_logits\.\d+)")
_PAD = 1


def check_parity(imported: Imported, path: Path) -> float:
    """Compare a model with outputs of the code that trained it.

    Args:
        imported: the model.
        path: ``.npz`` with ``src_tokens`` (B×S), ``src_lengths``, ``prev_output_tokens`` and ``target`` (B×T), with
            ``domains`` (B×D, in the model's own order) where it has adapters, and with any of what the original
            computed of them in evaluation mode: ``eval.target_log_probs`` (B×T), ``eval.encoder_out`` (S×B×H),
            ``eval.encoder_gate_logits.L`` (B×D), ``eval.decoder_gate_logits.L`` (T×B×D).

    Returns:
        The largest absolute difference.
    """
    inputs = (*_INPUTS, _DOMAINS) if imported.names else _INPUTS
    arrays = read_arrays(path, _names_in(path, inputs), _REMEDY)
    given = {name: torch.from_numpy(array) for name, array in arrays.items()}
    _check_inputs(path, given, imported)
    ours = _outputs(imported, given)
    largest = 0.0
    for name in sorted(name for name in given if _OUTPUTS.fullmatch(name)):
        if name not in ours or ours[name].shape != given[name].shape:
            raise InputError(f"{path}: {name} is of another form than the imported model's; {_REMEDY}")
        difference = (ours[name] - given[name]).abs()[_counted(name, given)].max().item()
        if not difference <= TOLERANCE:
            raise InputError(f"{path}: {name} differs by {difference:.1e} from the imported model's; {_REMEDY}")
        largest = max(largest, difference)
    return largest


def _names_in(path: Path, inputs: Sequence[str]) -> list[str]:
    """The arrays of the file that are compared, and those they are computed of."""
    read_arrays(path, inputs, _REMEDY)
    with np.load(path, allow_pickle=False) as file:
        return [*inputs, *(name for name in file.files if _OUTPUTS.fullmatch(name))]


def _check_inputs(path: Path, given: Mapping[str, Tensor], imported: Imported) -> None:
    """Check the forms of what the model is given, and that there is something to compare."""
    sizes = {side: len(imported.weights[f"{side}.embed_tokens.weight"]) for side in ("encoder", "decoder")}
    forms = {"src_tokens": sizes["encoder"], "prev_output_tokens": sizes["decoder"], "target": sizes["decoder"]}
    rows = len(given["src_lengths"])
    for name, symbols in forms.items():
        tokens = given[name]
        if tokens.dim() != 2 or len(tokens) != rows or tokens.is_floating_point() or not tokens.numel():
            raise InputError(f"{path}: {name} is of another form than tokens of {rows} sentences; {_REMEDY}")
        if not 0 <= int(tokens.min()) <= int(tokens.max()) < symbols:
            raise InputError(f"{path}: {name} has symbols that the model's {symbols} are not; {_REMEDY}")
    if imported.names and given[_DOMAINS].shape != (rows, len(imported.names)):
        raise InputError(f"{path}: {_DOMAINS} is not of {rows} sentences and {len(imported.names)} adapters; {_REMEDY}")
    if not any(_OUTPUTS.fullmatch(name) for name in given):
        raise InputError(f"{path}: has no outputs to compare, such as eval.target_log_probs; {_REMEDY}")


def _outputs(imported: Imported, given: dict[str, Tensor]) -> dict[str, Tensor]:
    model: Any = imported.built()
    order = torch.tensor([imported.names.index(name) for name in imported.own_order], dtype=torch.long)
    domains = {"domain_ids": order[given[_DOMAINS].argmax(1)]} if getattr(model, "needs_domains", False) else {}
    with torch.no_grad():
        encoder_out = model.encoder(given["src_tokens"], given["src_lengths"], **domains)
        logits, extra = model.decoder(given["prev_output_tokens"], encoder_out=encoder_out)
        log_probs = logits.log_softmax(-1).gather(2, given["target"].unsqueeze(2)).squeeze(2)
    gates = extra.get("gate_logits", {})
    sides = {
        "encoder": [value[:, order] for value in gates.get("encoder", ())],
        "decoder": [value.transpose(0, 1)[..., order] for value in gates.get("decoder", ())],
    }
    by_layer = {f"eval.{side}_gate_logits.{n}": v for side, layers in sides.items() for n, v in enumerate(layers)}
    return {"eval.encoder_out": encoder_out["encoder_out"][0], "eval.target_log_probs": log_probs, **by_layer}


def _counted(name: str, given: dict[str, Tensor]) -> Tensor | slice:
    """What means something: not what is padding."""
    if name == "eval.encoder_out":
        return given["src_tokens"].ne(_PAD).t()
    if name == "eval.target_log_probs":
        return given["target"].ne(_PAD)
    return given["target"].ne(_PAD).t() if name.startswith("eval.decoder") else slice(None)

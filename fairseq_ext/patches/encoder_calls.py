"""fairseq's generation calls encoders as the modules they are."""

from __future__ import annotations

from typing import Any

import torch
from fairseq.models import FairseqEncoder


def call_encoders_with_their_hooks() -> None:
    """Let generation call an encoder itself, and not its ``forward`` past what is hooked onto it.

    By such a hook, a model that does not route by domain leaves out what an ensemble's other models need.
    """
    FairseqEncoder.forward_non_torchscript = _call


@torch.jit.unused
def _call(encoder: FairseqEncoder, net_input: dict[str, Any]) -> Any:
    return encoder(**{name: value for name, value in net_input.items() if name != "prev_output_tokens"})

"""Score translations with COMET, in COMET's environment.

``comet.py`` runs ``python -I comet_worker.py CHECKPOINT``. This module imports nothing from the package. It reads JSON
lines ``{"src", "mt", "ref"}`` from stdin. It writes a line ``{"version"}`` and the score of each line to stdout, and
messages to stderr.
"""

from __future__ import annotations

import json
import math
import sys
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import Any


def load_model(checkpoint: Path) -> Any:
    """Load a local COMET model.

    COMET loads with ``strict=False`` and leaves missing weights random; here, missing weights are an error. Unused
    entries are allowed, because older checkpoints have buffers that are now computed.
    """
    import torch
    from comet import load_from_checkpoint
    from comet.models.base import CometModel

    def load_state_dict(self: Any, state: Any, strict: bool = True, assign: bool = False) -> Any:
        result = torch.nn.Module.load_state_dict(self, state, strict=False, assign=assign)
        if result.missing_keys:
            sys.exit(f"{checkpoint}: lacks {len(result.missing_keys)} weights, such as {result.missing_keys[0]}")
        return result

    CometModel.load_state_dict = load_state_dict
    try:
        return load_from_checkpoint(str(checkpoint), local_files_only=True)
    except OSError as error:
        reason = " ".join(str(error).split())
        sys.exit(
            f"{checkpoint}: cannot be loaded ({reason}); its encoder's tokenizer and configuration must be in the "
            "Hugging Face cache: download the pretrained_model that hparams.yaml names"
        )


def main() -> None:
    samples = [json.loads(line) for line in sys.stdin]
    # Libraries that print must not mix their output with the scores.
    with redirect_stdout(sys.stderr):
        import torch

        model = load_model(Path(sys.argv[1]))
        gpus = min(1, torch.cuda.device_count())
        scores = model.predict(samples, batch_size=16, gpus=gpus, progress_bar=sys.stderr.isatty()).scores
    wrong = [number for number, score in enumerate(scores, start=1) if not math.isfinite(score)]
    if wrong:
        sys.exit(f"{sys.argv[1]}: the score of sentence {wrong[0]} is {scores[wrong[0] - 1]}")
    print(json.dumps({"version": version("unbabel-comet")}))
    for score in scores:
        print(json.dumps(score))


if __name__ == "__main__":
    main()

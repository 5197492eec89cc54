"""Metrics of the hierarchy recipe, and the dimensions of losses.

A *routing* says which adapters score a text, as dimensions of the loss: ``{"paths": "own"}`` are those of the text's
own domain, ``{"paths": "all"}`` all paths of the tree, ``{"path": LEAF}`` one path, and ``{"paths": K, "weights":
"votes"}`` K paths chosen for the domain. Models without adapters have the routing ``{"paths": "none"}``.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairseq_ext.experiments.metrics.records import Dimension

# Negative log-likelihood, with one end of sentence per line.
LOSS, WORD_LOSS = "nats per token", "nats per word"
CHOOSING_LOSS, VOTES, FLOPS = "loss to choose by", "votes", "added_flops of base_flops"

Routing = Mapping[str, Dimension]
OWN, ALL, NONE = {"paths": "own"}, {"paths": "all"}, {"paths": "none"}
BEST_PATH, MEAN_PATH = {"paths": "best"}, {"paths": "mean"}  # of the losses over each single path


def chosen(num_paths: int, weights: str) -> Routing:
    """Return the routing over ``num_paths`` paths chosen for the domain, weighted by votes or uniformly."""
    return {"paths": num_paths, "weights": weights}

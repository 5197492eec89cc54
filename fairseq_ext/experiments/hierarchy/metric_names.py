"""Names of metrics of the hierarchy recipe.

A *routing* is the set of adapters used for scoring: those of the text's own domain (``own``), all paths of the tree
(``all``), one path (``path:LEAF``), or k paths chosen for the domain and weighted by votes (``chosen:K``) or uniformly
(``chosen:K:uniform``). Models without adapters have one routing, ``none``.

Losses are negative log-likelihoods in nats: per token with one end of sentence per line, and per word.
"""

from __future__ import annotations

from fairseq_ext.experiments.hierarchy.config import BY_VOTES, UNIFORM

OWN, ALL, NONE = "own", "all", "none"  # routings
PATH, BEST_PATH, MEAN_PATH = "path:", "best path", "mean path"
TOKEN, WORD = "token", "word"
CHOOSING_LOSS, VOTES, FLOPS = "loss to choose by", "votes", "added_flops of base_flops"


def chosen(num_paths: int, weights: str = BY_VOTES) -> str:
    """Return the routing over ``num_paths`` paths chosen for the domain and weighted by votes or uniformly."""
    return f"chosen:{num_paths}:{UNIFORM}" if weights == UNIFORM else f"chosen:{num_paths}"


def loss(routing: str, unit: str = TOKEN) -> str:
    """Return the metric name of a routing's mean loss per unit: :data:`TOKEN` or :data:`WORD`."""
    return f"nats per {unit}, {routing}"

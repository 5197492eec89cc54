"""Over which adapters text is scored: the names under which records keep it."""

from __future__ import annotations

OWN, ALL, NONE = "own", "all", "none"


def path_routing(leaf: str) -> str:
    """A single path of the tree, or one of the single adapters."""
    return f"path:{leaf}"


def family_routing(node: str) -> str:
    """All paths below an inner node."""
    return f"below:{node}"


def chosen_routing(num_paths: int) -> str:
    """So many paths, chosen for the domain."""
    return f"chosen:{num_paths}"


def sequence_routing(num_paths: int, num_tokens: int) -> str:
    """So many paths, chosen by every sequence from its first so many tokens (0: all)."""
    return f"sequence:{num_paths}:{num_tokens}"

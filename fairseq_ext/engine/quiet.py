"""Keeping fairseq quiet where it is loaded into a program of ours."""

from __future__ import annotations

import logging
import warnings


def quieten_fairseq() -> None:
    """Let nothing through but warnings: with fairseq loaded, every library says all that it could."""
    logging.basicConfig()  # before one of them does, with a level of its own
    logging.getLogger().setLevel(logging.WARNING)
    # What fairseq's own dependencies warn of tells a user nothing.
    warnings.filterwarnings("ignore", module="torch")

#!/usr/bin/env python3
"""Adapters as files, and domains that come and go; see ``adapters.py --help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.adapters.command_line import main  # noqa: E402
from fairseq_ext.inputs.errors import run_command  # noqa: E402

if __name__ == "__main__":
    run_command(main)

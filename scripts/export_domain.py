#!/usr/bin/env python3
"""Write one domain's adapters as a plain Transformer, for tools that know no adapters; see ``--help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.engine.own_python import use_own_python

use_own_python()

from fairseq_ext.inputs.errors import run_command
from fairseq_ext.interchange.export_command import main

if __name__ == "__main__":
    run_command(main)

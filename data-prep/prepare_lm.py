#!/usr/bin/env python3
"""The old name of ``data-prep/prepare.py`` for one kind of experiment; it goes with the next release."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.engine.own_python import use_own_python

use_own_python()

from fairseq_ext.experiments.old_names import main
from fairseq_ext.inputs.errors import run_command

if __name__ == "__main__":
    run_command(lambda: main(["prepare_lm.py", *sys.argv[1:]]))

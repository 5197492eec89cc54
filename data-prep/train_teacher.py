#!/usr/bin/env python3
"""Train the domain classifier of an experiment; see ``train_teacher.py --help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.engine.own_python import use_own_python

use_own_python()

from fairseq_ext.inputs.errors import run_command
from fairseq_ext.recipes.translation.commands import train_teacher

if __name__ == "__main__":
    run_command(train_teacher)

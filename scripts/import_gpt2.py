#!/usr/bin/env python3
"""Turn a GPT-2 of Hugging Face's into a fairseq checkpoint, or back; see ``import_gpt2.py --help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.engine.own_python import use_own_python

use_own_python()

from fairseq_ext.hugging_face.gpt2_convert import main
from fairseq_ext.inputs.errors import run_command

if __name__ == "__main__":
    run_command(main)

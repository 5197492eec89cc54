#!/usr/bin/env python3
"""Turn a RoBERTa, XLM-R or BERT of Hugging Face's into a fairseq checkpoint; see ``import_roberta.py --help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.engine.own_python import use_own_python

use_own_python()

from fairseq_ext.hugging_face.roberta_convert import main
from fairseq_ext.inputs.errors import run_command

if __name__ == "__main__":
    run_command(main)

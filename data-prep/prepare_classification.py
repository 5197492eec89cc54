#!/usr/bin/env python3
"""Prepare the data of classifiers; see ``prepare_classification.py --help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.preparation.classification_prepare import main  # noqa: E402

if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measure topic models and report on them; see ``evaluate_topics.py --help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.topics.evaluate_topics import main  # noqa: E402

if __name__ == "__main__":
    main()

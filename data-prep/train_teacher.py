#!/usr/bin/env python3
"""``fairseq-ext teacher``."""

import os
import sys

program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scripts", "fairseq-ext")
os.execv(program, [program, "teacher", *sys.argv[1:]])

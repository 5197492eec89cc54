#!/usr/bin/env python3
"""Make parallel text from gettext catalogues; see ``import_gettext.py --help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.preparation.import_gettext import main  # noqa: E402

if __name__ == "__main__":
    main()

"""Domain adaptation for fairseq: a ``--user-dir`` package.

Importing it registers the models, criterions and tasks, provided fairseq is loaded already, as it is
wherever ``--user-dir`` has a meaning. The data-preparation commands use the package without fairseq and
torch, and start in a fraction of the time for it; where fairseq is loaded later, that takes less time.
"""

import os
import sys
from importlib.util import find_spec

# ``python -m fairseq_ext.…`` puts the current directory first, whose yaml.py or random.py is no library of ours.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and sys.path[0] != os.path.dirname(__path__[0]):
    del sys.path[0]

if "fairseq" in sys.modules:
    from fairseq_ext import registration  # noqa: F401
elif find_spec("fairseq") is not None:  # a Python without it only hands over to the project's own
    from fairseq_ext.patches.loading import load_fairseq_fast

    load_fairseq_fast()

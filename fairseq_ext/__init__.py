"""Domain adaptation for fairseq: a ``--user-dir`` package.

If fairseq is already loaded, as it is with ``--user-dir``, importing the package registers its models, criterions and
tasks. The data-preparation commands import the package without fairseq and torch, so they start much faster. If fairseq
is loaded later, it loads faster than usual.
"""

import os
import sys
from importlib.util import find_spec

# ``python -m fairseq_ext.…`` puts the current directory first; its yaml.py or random.py would hide the libraries.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and sys.path[0] != os.path.dirname(__path__[0]):
    del sys.path[0]

if "fairseq" in sys.modules:
    from fairseq_ext import registration  # noqa: F401
elif find_spec("fairseq") is not None:  # without fairseq, the program restarts with the project's Python
    from fairseq_ext.patches.loading import load_fairseq_fast

    load_fairseq_fast()

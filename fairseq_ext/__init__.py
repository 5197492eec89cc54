"""Domain adaptation for fairseq: a ``--user-dir`` package.

Importing it changes nothing. :func:`install` registers its models, criterions and tasks; ``--user-dir`` calls it.
"""

import importlib
import os
import sys

__version__ = "0.1.0"

# ``python -m fairseq_ext.…`` puts the current directory first; its yaml.py or random.py would hide the libraries.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and sys.path[0] != os.path.dirname(__path__[0]):
    del sys.path[0]


def install() -> None:
    """Register the package's models, criterions and tasks with fairseq, and apply its changes to fairseq.

    Call it before fairseq loads checkpoints of this package; it does not matter whether fairseq is imported first. A
    second call has no effect. The data-preparation commands never call it, and so start without fairseq and torch.
    """
    # By name, because models and tasks, which it registers, call this function.
    importlib.import_module("fairseq_ext.registration").install()


def _is_user_dir() -> bool:
    """Return whether fairseq is importing this package for ``--user-dir``; it notes the folder before it does so."""
    load = getattr(sys.modules.get("fairseq.utils"), "import_user_module", None)
    return __path__[0] in getattr(load, "memo", ())


if _is_user_dir():
    install()

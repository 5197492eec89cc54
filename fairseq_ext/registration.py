"""The package's models, criterions and tasks, which this import registers with fairseq, and its changes to fairseq."""

from fairseq_ext import criterions, models, tasks  # noqa: F401
from fairseq_ext.data import tokenizers  # noqa: F401
from fairseq_ext.models import base_layout
from fairseq_ext.patches import apply, checkpoints, commands, first_batch, options, training, usual_task
from fairseq_ext.patches import models as model_patches

_CHANGED = (training, first_batch, commands, usual_task, model_patches, checkpoints)


def install() -> None:
    """Apply the package's changes to fairseq, until :func:`fairseq_ext.patches.undo`. A second call has no effect."""
    apply(patch for module in _CHANGED for patch in module.PATCHES)
    apply(base_layout.transformer_patches())
    options.read_values_as_literals()
    checkpoints.allow_plain_types()

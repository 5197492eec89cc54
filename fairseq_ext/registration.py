"""Register the package's models, criterions and tasks with fairseq, and apply the package's changes to fairseq."""

from fairseq_ext import criterions, models, tasks  # noqa: F401
from fairseq_ext.data import wordpiece  # noqa: F401
from fairseq_ext.data.domain_blocks import let_blocks_be_sentences
from fairseq_ext.models.base_layout import size_transformers_by_base
from fairseq_ext.patches import apply, commands, first_batch, training, usual_task
from fairseq_ext.patches import models as model_patches
from fairseq_ext.patches.checkpoints import load_checkpoints_safely
from fairseq_ext.patches.loading import leave_compilers_out
from fairseq_ext.patches.options import read_values_as_literals

apply([*training.PATCHES, *first_batch.PATCHES, *commands.PATCHES, *usual_task.PATCHES, *model_patches.PATCHES])
read_values_as_literals()
load_checkpoints_safely()
leave_compilers_out()
let_blocks_be_sentences()
size_transformers_by_base()

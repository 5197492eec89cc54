"""What fairseq has to know of this package: its models, criterions and tasks, and what it does better with us."""

from fairseq_ext import criterions, models, tasks  # noqa: F401
from fairseq_ext.data.domain_blocks import let_blocks_be_sentences
from fairseq_ext.training.checkpoints import copy_checkpoints_whole, load_checkpoints_safely

load_checkpoints_safely()
copy_checkpoints_whole()
let_blocks_be_sentences()

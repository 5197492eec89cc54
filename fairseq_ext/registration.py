"""What fairseq has to know of this package: its models, criterions and tasks, and what it does better with us."""

from fairseq_ext import criterions, models, tasks  # noqa: F401
from fairseq_ext.data import wordpiece  # noqa: F401
from fairseq_ext.data.domain_blocks import let_blocks_be_sentences
from fairseq_ext.patches.archives import unpack_archives_safely
from fairseq_ext.patches.batch_threads import stop_batches_at_exit
from fairseq_ext.patches.checkpoint_copies import copy_checkpoints_whole
from fairseq_ext.patches.checkpoints import load_checkpoints_safely
from fairseq_ext.patches.commands import end_commands_with_one_line
from fairseq_ext.patches.compilers import leave_compilers_out
from fairseq_ext.patches.cpu_training import train_on_cpus_as_asked
from fairseq_ext.patches.decoding_precision import decode_as_precisely_as_asked
from fairseq_ext.patches.encoder_calls import call_encoders_with_their_hooks
from fairseq_ext.patches.exchanged_gradients import exchange_only_gradients
from fairseq_ext.patches.literals import read_values_as_literals
from fairseq_ext.patches.programs import refuse_programs
from fairseq_ext.patches.quick_steps import let_steps_be_quick
from fairseq_ext.patches.starting_checkpoint import require_starting_checkpoints

train_on_cpus_as_asked()
end_commands_with_one_line()
read_values_as_literals()
call_encoders_with_their_hooks()
load_checkpoints_safely()
copy_checkpoints_whole()
unpack_archives_safely()
refuse_programs()
let_blocks_be_sentences()
require_starting_checkpoints()
stop_batches_at_exit()
leave_compilers_out()
let_steps_be_quick()
exchange_only_gradients()
decode_as_precisely_as_asked()

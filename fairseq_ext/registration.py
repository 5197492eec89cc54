"""What fairseq has to know of this package: its models, criterions and tasks, and what it does better with us."""

from fairseq_ext import criterions, models, tasks  # noqa: F401
from fairseq_ext.data import wordpiece  # noqa: F401
from fairseq_ext.data.domain_blocks import let_blocks_be_sentences
from fairseq_ext.models.base_layout import size_transformers_by_base
from fairseq_ext.patches.checkpoints import load_checkpoints_safely
from fairseq_ext.patches.commands import (
    end_commands_with_one_line,
    explain_damaged_data,
    refuse_programs,
    unpack_archives_safely,
)
from fairseq_ext.patches.loading import leave_compilers_out
from fairseq_ext.patches.models import (
    call_encoders_with_their_hooks,
    decode_as_precisely_as_asked,
    offer_swish,
    take_output_biases,
)
from fairseq_ext.patches.options import read_values_as_literals
from fairseq_ext.patches.training import (
    copy_checkpoints_whole,
    end_diverged_trainings_with_one_line,
    exchange_only_gradients,
    require_starting_checkpoints,
    stop_batches_at_exit,
    train_on_cpus_as_asked,
)
from fairseq_ext.patches.usual_task import take_the_task_that_fits

train_on_cpus_as_asked()
end_commands_with_one_line()
explain_damaged_data()
end_diverged_trainings_with_one_line()
read_values_as_literals()
take_the_task_that_fits()
call_encoders_with_their_hooks()
load_checkpoints_safely()
copy_checkpoints_whole()
unpack_archives_safely()
refuse_programs()
let_blocks_be_sentences()
require_starting_checkpoints()
stop_batches_at_exit()
leave_compilers_out()
exchange_only_gradients()
decode_as_precisely_as_asked()
offer_swish()
size_transformers_by_base()
take_output_biases()

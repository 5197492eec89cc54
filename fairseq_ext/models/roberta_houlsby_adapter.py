"""Houlsby adapters in a RoBERTa encoder: adapters, layer norms and a head per task, on one frozen base."""

from argparse import ArgumentParser
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model, register_model_architecture
from fairseq.models.roberta.model import (
    RobertaEncoder,
    RobertaModel,
    base_architecture,
    roberta_large_architecture,
)
from fairseq.models.transformer import TransformerConfig, TransformerEncoder
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from omegaconf import OmegaConf, open_dict
from torch import Tensor, nn

from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.base.option import option
from fairseq_ext.models.adapter_transformer import AdapterConfig
from fairseq_ext.models.bert import take_norm_eps
from fairseq_ext.models.checkpoints import check_fit
from fairseq_ext.models.presets import SMALL, TINY, of_side, register_presets, sized
from fairseq_ext.modules.freezing import FrozenBase, freeze_base
from fairseq_ext.modules.task_parameters import (
    ACTIVATIONS,
    HEADS,
    TASKS,
    SavedTask,
    TaskDescription,
    TaskParameters,
    TaskSwitch,
    check_task_name,
    is_of_task,
    switch_norms,
    task_names,
)
from fairseq_ext.modules.token_types import SECOND_TEXT, fresh_second_text, in_second_text, take_token_types
from fairseq_ext.modules.tunings import ARCHITECTURE, DEFAULT_BOTTLENECK_DIM, DEFAULT_TUNING, TUNINGS

_ENCODER = "encoder"
_BASE = f"{_ENCODER}.sentence_encoder"
_SECOND_TEXT = f"{_BASE}.{SECOND_TEXT}"


@dataclass
class HoulsbyAdapterConfig(AdapterConfig):
    """Options of the adapters and their baselines, in addition to fairseq's options of RoBERTa."""

    bottleneck_dim: int = option(
        DEFAULT_BOTTLENECK_DIM, f"bottleneck dimension of an adapter (default: {DEFAULT_BOTTLENECK_DIM})"
    )
    adapter_init_scale: float = option(
        0.01,
        "standard deviation of the adapters' weights at initialisation, truncated at two standard deviations; "
        "with 0, the model starts exactly as its base, but the adapters cannot learn (default: 0.01)",
    )
    adapter_activation_fn: ChoiceEnum(list(ACTIVATIONS)) = option(  # type: ignore[valid-type]
        "gelu", "non-linearity inside an adapter (default: gelu)"
    )
    tuning: ChoiceEnum(TUNINGS) = option(  # type: ignore[valid-type]
        DEFAULT_TUNING,
        "parameters to train in addition to the task's head: its adapters and layer norms (adapters), its layer "
        "norms (norms), the base's last --top-layers layers (top), or the whole base (full) (default: adapters)",
    )
    top_layers: int = option(1, "with --tuning top: number of last layers to train (default: 1)")
    token_types: bool = option(
        False,
        "use BERT's token type 1 for the second text of a pair, as in BERT's training; do not combine with "
        "--separator-token (default: all text has type 0)",
    )
    linear_head: bool = option(
        False, "use a head without a hidden layer, as in the paper (default: the head of fairseq's RoBERTa)"
    )


class TaskEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's layer with an adapter before each of its two residuals (Houlsby et al. 2019, Fig. 2).

    The input of an adapter is the output of the attention or feed-forward block, after dropout as in the published
    code.
    """

    switch: TaskSwitch
    number: int

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        adapters = [] if self.switch.value is None else list(self.switch.value.adapters)
        self.switch.waiting = iter(adapters[2 * self.number : 2 * self.number + 2])
        return super().forward(*args, **kwargs)

    def residual_connection(self, x: Tensor, residual: Tensor) -> Tensor:
        """Adapt x and add the residual. Layers call this first after attention, then after the feed-forward block."""
        adapter = next(self.switch.waiting, None)
        return super().residual_connection(x if adapter is None else adapter(x), residual)


class TaskSentenceEncoder(TransformerEncoder):
    """fairseq's encoder, whose layers and norms use the task that a switch selects.

    Attributes:
        norm_names: names of all layer norms, in the order of a task's norms.
        second_text: H, difference of token type 1 from type 0; None for a base without token types.
    """

    second_text: nn.Parameter | None

    def __init__(self, args: Any, dictionary: Any, embed_tokens: nn.Embedding):
        super().__init__(args, dictionary, embed_tokens)
        self.switch = TaskSwitch()
        for number, layer in enumerate(self.layers.children()):
            layer.switch, layer.number = self.switch, number
        self.norm_names = switch_norms(self, self.switch)
        has_types = getattr(args, "token_types", False)
        self.register_parameter(SECOND_TEXT, fresh_second_text(embed_tokens) if has_types else None)

    def forward_embedding(self, src_tokens: Tensor, token_embedding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Embed tokens as fairseq does, with token types if the task uses them."""
        if self.second_text is not None and self.switch.value is not None and self.switch.value.has_token_types:
            words = self.embed_tokens(src_tokens) if token_embedding is None else token_embedding
            is_second = in_second_text(src_tokens, self.dictionary.eos()).unsqueeze(-1)
            token_embedding = words + is_second * self.second_text / self.embed_scale
        embedding: tuple[Tensor, Tensor] = super().forward_embedding(src_tokens, token_embedding)
        return embedding

    def build_encoder_layer(self, args: Any) -> TaskEncoderLayer:
        return TaskEncoderLayer(TransformerConfig.from_namespace(args))


class TaskRobertaEncoder(RobertaEncoder):
    """fairseq's RoBERTa around a :class:`TaskSentenceEncoder`."""

    def build_encoder(self, args: Any, dictionary: Any, embed_tokens: nn.Embedding) -> TaskSentenceEncoder:
        return TaskSentenceEncoder(args, dictionary, embed_tokens).apply(init_bert_params)


class LinearHead(nn.Module):
    """A linear layer on the first token's state, as in the paper; fairseq's head also has a hidden layer."""

    def __init__(self, embed_dim: int, num_classes: int, dropout: float):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(embed_dim, num_classes)
        init_bert_params(self.out_proj)

    def forward(self, features: Tensor, **_: Any) -> Tensor:
        """Compute logits of classes: B×T×H → B×C."""
        logits: Tensor = self.out_proj(self.dropout(features[:, 0]))
        return logits


@register_model(ARCHITECTURE)
class RobertaHoulsbyAdapterModel(FrozenBase, RobertaModel):
    """A RoBERTa for any number of classification and regression tasks, one at a time.

    A task's name is that of fairseq's classification head, of the task's adapters and of its layer norms. The task that
    fairseq's ``sentence_prediction`` registers is trained; tasks from a checkpoint are kept unchanged. A forward pass
    without a task is exactly the base. State-dict keys of the base are unchanged, so that training can start from any
    ``roberta`` checkpoint (``--finetune-from-model``), or from one of this model for the next task.

    Attributes:
        tasks: parameters of each task inside the encoder, by name.
        task_name: name of the task to train, or None.
    """

    def __init__(self, args: Any, encoder: TaskRobertaEncoder):
        super().__init__(args, encoder)
        self.tasks = nn.ModuleDict()
        self.task_name: str | None = None
        self.data_labels: list[str] = []
        self.options = HoulsbyAdapterConfig.from_args(args)
        self.tuning, self.frozen_mode = str(self.options.tuning), str(self.options.frozen_mode)
        self.register_load_state_dict_pre_hook(check_fit)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        super().add_args(parser)
        # No argparse defaults: they would override the values of architecture presets.
        gen_parser_from_dataclass(parser, HoulsbyAdapterConfig(), delete_default=True)

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "RobertaHoulsbyAdapterModel":
        with open_dict(args) if OmegaConf.is_config(args) else nullcontext():
            args.load_checkpoint_heads = False  # heads are loaded with their tasks
            if getattr(args, "max_positions", None) is None:
                args.max_positions = task.max_positions()
            base_architecture(args)
            model = cls(args, TaskRobertaEncoder(args, task.source_dictionary))
        model.data_labels = data_labels(task)
        return model

    @property
    def base(self) -> TaskSentenceEncoder:
        return self.encoder.sentence_encoder

    def forward(  # type: ignore[override]
        self, src_tokens: Tensor, *args: Any, classification_head_name: str | None = None, **kwargs: Any
    ) -> tuple[Tensor, dict[str, Any]]:
        """Run the model for a task or as the base.

        Shape:
            src_tokens: B×T; result: B×C with a task; without one B×T×V, or B×T×H for features
        """
        with self.active(classification_head_name) if classification_head_name else nullcontext():
            out: tuple[Tensor, dict[str, Any]] = super().forward(
                src_tokens, *args, classification_head_name=classification_head_name, **kwargs
            )
        return out

    def active(self, name: str) -> AbstractContextManager[None]:
        """Return a context manager that uses a task's parameters in the encoder."""
        check_choice(name, list(self.tasks), "task of the model")
        return self.base.switch.during(self.tasks[name])

    def register_classification_head(
        self, name: str, num_classes: int, inner_dim: int | None = None, **kwargs: Any
    ) -> None:
        """Add the task to train, and freeze everything else except the parameters selected by ``--tuning``."""
        labels = self.data_labels
        if labels and len(labels) != num_classes:
            raise InputError(
                f"--num-classes: {num_classes}, but the data's label/dict.txt has {len(labels)} labels "
                f"({', '.join(labels)}); give --num-classes {len(labels)}"
            )
        options, width = self.options, self.args.encoder_embed_dim
        activation_fn = str(options.adapter_activation_fn)
        description = TaskDescription(labels, self.tuning, activation_fn, options.token_types, options.linear_head)
        inner_dim = 0 if options.linear_head else inner_dim or width
        self.task_name = name
        self._add_task(SavedTask(name, description, options.bottleneck_dim, num_classes, inner_dim))

    def is_trained(self, name: str) -> bool:
        if self.task_name is None or (name == _SECOND_TEXT and not self.options.token_types):
            return False
        return is_of_task(f"{name}.", self.task_name) or f"{name}.".startswith(self._trained_in_base())

    def _trained_in_base(self) -> tuple[str, ...]:
        """Return the prefixes of the base's parameters that are trained."""
        if self.tuning == "full":
            return (f"{_BASE}.",)
        if self.tuning == "top":
            last = range(self.base.num_layers)[-self.options.top_layers :]
            # Pre-norm encoders have a norm after the last layer.
            return (f"{_BASE}.layer_norm.", *(f"{_BASE}.layers.{number}." for number in last))
        return ()

    def _add_task(self, task: SavedTask) -> None:
        """Create the head and parameters of a task, with the base's device and dtype."""
        check_task_name(task.name)
        weight = self.base.embed_tokens.weight
        if task.description.linear_head:
            head = LinearHead(weight.shape[1], task.num_classes, self.args.pooler_dropout)
            self.classification_heads[task.name] = head
        else:
            super().register_classification_head(task.name, task.num_classes, task.inner_dim)
        self.tasks[task.name] = TaskParameters(
            task.description,
            weight.shape[1],
            num_layers=self.base.num_layers,
            num_norms=len(self.base.norm_names),
            bottleneck_dim=task.bottleneck_dim,
            init_scale=self.options.adapter_init_scale,
        )
        for part in (self.classification_heads[task.name], self.tasks[task.name]):
            part.to(weight.device, weight.dtype).train(self.training)
        freeze_base(self, self.is_trained)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Add the checkpoint's tasks to the model, and initial values of the new task to the state dict, in place."""
        take_norm_eps(self.encoder, state_dict, f"{_ENCODER}.")
        take_token_types(self.base, state_dict, f"{_BASE}.")
        saved = {task: SavedTask.read(state_dict, task) for task in task_names(state_dict)}
        has_types = self.options.token_types or any(task_saved.description.token_types for task_saved in saved.values())
        if has_types and _SECOND_TEXT not in state_dict:
            raise InputError(
                "--token-types: the checkpoint's base has no token types; use a BERT imported with fairseq-ext import "
                "roberta of this version"
            )
        self._check_kept(state_dict, [task for task in saved if task != self.task_name])
        for task, task_saved in saved.items():
            if task in self.tasks:
                task_saved.check_same(SavedTask.read(self.state_dict(), task))
            else:
                self._add_task(task_saved)
        linear = self._without_linear_heads(state_dict)
        super().upgrade_state_dict_named(state_dict, name)
        state_dict.update(linear)
        self._check_positions(state_dict)
        if self.task_name is not None and self.task_name not in saved:
            self._start_from_base(state_dict)

    def _without_linear_heads(self, state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
        """Remove the linear heads, which fairseq does not know, from a state dict, and return them."""
        names = [name for name, head in self.classification_heads.items() if isinstance(head, LinearHead)]
        keys = [key for key in state_dict if key.startswith(tuple(f"{HEADS}.{name}." for name in names))]
        return {key: state_dict.pop(key) for key in keys}

    def _check_kept(self, state_dict: dict[str, Tensor], others: list[str]) -> None:
        """Check that training would leave a checkpoint's other tasks unchanged, bit for bit."""
        if self.task_name is None or not others:
            return
        tasks = ", ".join(others)
        if self.tuning in ("top", "full"):
            raise InputError(
                f"--tuning {self.tuning} changes the base, which the checkpoint's tasks ({tasks}) need unchanged; use "
                "adapters or norms, or start from a checkpoint without tasks"
            )
        # In half precision, fairseq rounds all weights and saves them rounded.
        dtype, floats = self.base.embed_tokens.weight.dtype, filter(torch.is_floating_point, state_dict.values())
        if any(not torch.equal(value.to(dtype).to(value), value) for value in floats):
            raise InputError(
                f"--fp16 and --bf16 would round the checkpoint's tasks ({tasks}) and their base; use --amp"
            )

    def _check_positions(self, state_dict: dict[str, Tensor]) -> None:
        key = f"{_BASE}.embed_positions.weight"
        current, saved = self.state_dict().get(key), state_dict.get(key)
        if current is not None and saved is not None and len(current) != len(saved):
            # The first rows of the table are unused.
            length = len(saved) - self.base.padding_idx - 1
            raise InputError(
                f"--max-positions: {self.max_positions()}, but the checkpoint's base reads texts of up to {length} "
                f"tokens; give --max-positions {length}"
            )

    def _start_from_base(self, state_dict: dict[str, Tensor]) -> None:
        """Add the new task's initial parameters to a state dict; norms are copied from the base."""
        prefix = f"{TASKS}.{self.task_name}."
        state_dict.update({key: value for key, value in self.state_dict().items() if key.startswith(prefix)})
        for position, norm in enumerate(self.base.norm_names):
            for kind in ("weight", "bias"):
                norm_key, base_key = f"{prefix}norms.{position}.{kind}", f"{_BASE}.{norm}.{kind}"
                if norm_key in state_dict and base_key in state_dict:
                    state_dict[norm_key] = state_dict[base_key]


def data_labels(task: Any) -> list[str]:
    """Return the labels of a task's data, in order; empty for regression and for other tasks without labels."""
    dictionary = getattr(task, "label_dictionary", None)
    if dictionary is None or task.cfg.regression_target:
        return []
    # fairseq pads dictionaries with made-up words, and adds <mask> to every dictionary.
    symbols = dictionary.symbols[dictionary.nspecial :]
    return [symbol for symbol in symbols if symbol != "<mask>" and not symbol.startswith("madeupword")]


register_model_architecture(ARCHITECTURE, ARCHITECTURE)(base_architecture)
small_architecture, tiny_architecture = (sized(base_architecture, **of_side("encoder", size)) for size in (SMALL, TINY))
register_presets("roberta", small=small_architecture, tiny=tiny_architecture)
register_presets(ARCHITECTURE, large=roberta_large_architecture, small=small_architecture, tiny=tiny_architecture)

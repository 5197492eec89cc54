"""Domain-adapted GRU language model: gates combine general-domain word vectors with a small in-domain model."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import FairseqIncrementalDecoder, FairseqLanguageModel, register_model
from torch import Tensor, nn

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.option import option
from fairseq_ext.data.word_vectors import vectors_for
from fairseq_ext.models.presets import register_presets, sized
from fairseq_ext.modules.combinations import ARCHITECTURE, COMBINATIONS, DEFAULT_COMBINATION, MISSING_CHOICES
from fairseq_ext.modules.gru import DomainAdaptedGRU

# A GRU has no position limit, but fairseq requires a number.
_MAX_POSITIONS = 100_000
_STATE = "state"


@dataclass
class DAGRUConfig(FairseqDataclass):
    combination: ChoiceEnum(list(COMBINATIONS)) = option(  # type: ignore[valid-type]
        DEFAULT_COMBINATION,
        "use of general-domain word vectors: none; in place of trained ones (fixed); concatenated or summed "
        "words (wvc, wvs) or contexts, optionally weighted (cvc, wcvc, cvs, wcvs); gated words (wvg), "
        "gated contexts (cvg), or both (dagru) (default: dagru)",
    )
    word_vectors: str = option(
        "",
        "file of general-domain word vectors: GloVe text, word2vec text or binary; read when training "
        "starts and stored in checkpoints (default: none, for --combination none)",
    )
    missing_vectors: ChoiceEnum(MISSING_CHOICES) = option(  # type: ignore[valid-type]
        MISSING_CHOICES[0], "vector of a word that the file lacks: zero, or the mean of all found (default: zero)"
    )
    vector_scale: Optional[float] = option(  # noqa: UP045  (fairseq reads no other)
        None,
        "root mean square to which the components of general-domain word vectors are scaled; 0 leaves them "
        "unchanged (default: that of trained ones at initialisation, --init-range / √3)",
    )
    embed_dim: int = option(
        0,
        "dimension of the trained word vectors (default: 0, that of the general-domain ones if there are "
        "any, else --hidden-dim, as in the paper)",
    )
    hidden_dim: int = option(600, "units of the GRU (default: 600, the paper's)")
    init_range: float = option(0.1, "parameters are initialised within ± this number (default: 0.1, the paper's)")
    dropout: float = option(0.0, "dropout on word vectors and contexts (default: 0, the paper's)")
    vector_dim: int = option(0, "dimension of the general-domain word vectors; read from their file, do not set")


class DAGRUDecoder(FairseqIncrementalDecoder):
    """Word vectors of two domains, the GRU that combines them, and the output layer.

    The state is carried over between consecutive segments of text, separately for training and evaluation. The training
    state is part of the state dict, so that interrupted training can resume within an epoch.

    Args:
        embed_dim: dimension of the trained word vectors; 0 for none.
        vectors: V×E*, word vectors of the general domain, not trained.
        dropout: dropout probability on word vectors and contexts.
    """

    vectors: Tensor

    def __init__(self, dictionary: Any, gru: DomainAdaptedGRU, embed_dim: int, vectors: Tensor, dropout: float):
        super().__init__(dictionary)
        self.gru = gru
        self.embed = nn.Embedding(len(dictionary), embed_dim, dictionary.pad()) if embed_dim else None
        self.register_buffer("vectors", vectors)
        self.output = nn.Linear(gru.output_dim, len(dictionary))
        self.dropout = dropout
        # Number of the last segment and the states after it, for training (True) and evaluation (False).
        self._carried: dict[bool, tuple[int, Tensor]] = {}

    def forward(  # type: ignore[override]
        self,
        prev_output_tokens: Tensor,
        encoder_out: Any = None,
        incremental_state: dict | None = None,
        src_lengths: Any = None,
        segment: int | None = None,
        features_only: bool = False,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Compute scores of the next tokens, or the contexts that predict them.

        Args:
            segment: number of a segment of contiguous text, whose rows continue those of the previous segment;
                None for separate texts.

        Shape:
            prev_output_tokens: B×T; result: B×T×V, or B×T×C
        """
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        initial = self._initial(prev_output_tokens, incremental_state, segment)
        contexts, state = self.gru(*self._words(prev_output_tokens.t()), initial)
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, _STATE, {_STATE: state})
        if segment is not None:
            self._carried[self.training] = segment, state.detach()
        contexts = self._drop(contexts).transpose(0, 1)  # B×T×C
        return (contexts if features_only else self.output_layer(contexts)), {"attn": [None]}

    def output_layer(self, features: Tensor) -> Tensor:
        """Compute scores of tokens: B×T×C → B×T×V."""
        scores: Tensor = self.output(features)
        return scores

    def _words(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return own and general word vectors, T×B×E and T×B×E*; unused ones have dimension 0."""
        general = F.embedding(tokens, self.vectors)
        own = general[..., :0] if self.embed is None else self._drop(self.embed(tokens))
        return own, self._drop(general)

    def _drop(self, values: Tensor) -> Tensor:
        return F.dropout(values, self.dropout, self.training)

    def _initial(self, tokens: Tensor, incremental_state: dict | None, segment: int | None) -> Tensor:
        """Return the initial states, 2×B×H: those carried over, or zeros at the beginning of a text."""
        if incremental_state is not None:
            saved: Any = self.get_incremental_state(incremental_state, _STATE)
            if saved is not None:
                state: Tensor = saved[_STATE]
                return state
        if segment:
            return self._carried_to(segment, len(tokens))
        return self.output.weight.new_zeros(2, len(tokens), self.gru.hidden_dim)

    def _carried_to(self, segment: int, rows: int) -> Tensor:
        last, state = self._carried.get(self.training, (None, self.output.weight.new_zeros(2, 0, 0)))
        if last != segment - 1 or state.size(1) != rows:
            raise InputError(
                f"segment {segment} with {rows} rows of text does not continue "
                + (f"segment {last} with {state.size(1)} rows" if last is not None else "any segment")
                + "; use the checkpoint's --batch-size, or start a new epoch with --reset-dataloader"
            )
        return state.to(self.output.weight)

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:  # type: ignore[override]
        saved: Any = self.get_incremental_state(incremental_state, _STATE)
        if saved is not None:
            self.set_incremental_state(incremental_state, _STATE, {_STATE: saved[_STATE].index_select(1, new_order)})

    def get_extra_state(self) -> dict[str, Any]:
        """Return the training state carried over so far, for the state dict."""
        if True not in self._carried:
            return {}
        segment, state = self._carried[True]
        return {"segment": segment, _STATE: state}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self._carried = {True: (state["segment"], state[_STATE])} if state else {}

    def max_positions(self) -> int:
        return _MAX_POSITIONS


@register_model(ARCHITECTURE, dataclass=DAGRUConfig)
class DAGRULanguageModel(FairseqLanguageModel):
    """A GRU language model with general-domain word vectors, in ten combinations (Zhang et al., 2016).

    Use it with the task ``contiguous_language_modeling``, which carries the state from one segment to the next. The
    vectors are a buffer: they are not trained, and every checkpoint contains them.

    Attributes:
        found_options: options derived from the vectors' file, to be stored in checkpoints.
    """

    found_options: dict[str, Any]

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "DAGRULanguageModel":
        """Build the model, and read the word vectors unless a checkpoint will provide them."""
        combination = COMBINATIONS[str(cfg.combination)]
        vectors = torch.zeros(len(task.dictionary), 0)
        if combination.has_general_words:
            vectors = _vectors(cfg, task.dictionary)
        cfg.vector_dim = vectors.size(1)
        embed_dim = 0 if combination.words == "general" else cfg.embed_dim or cfg.vector_dim or cfg.hidden_dim
        if combination.has_one_width and embed_dim != cfg.vector_dim:
            raise InputError(
                f"--embed-dim {embed_dim}: --combination {cfg.combination} needs the dimension of the word vectors, "
                f"{cfg.vector_dim}; remove the option"
            )
        gru = DomainAdaptedGRU(combination, embed_dim, cfg.vector_dim, cfg.hidden_dim)
        model = cls(DAGRUDecoder(task.dictionary, gru, embed_dim, vectors, cfg.dropout))
        model.found_options = {"vector_dim": cfg.vector_dim, "vector_scale": cfg.vector_scale}
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -cfg.init_range, cfg.init_range)
        return model


def _vectors(cfg: Any, dictionary: Any) -> Tensor:
    """Return the vectors, V×E*, from their file; zeros if the options have the dimension, as in checkpoints."""
    if cfg.vector_dim:
        return torch.zeros(len(dictionary), cfg.vector_dim)
    if not cfg.word_vectors:
        raise InputError(f"--word-vectors: missing, but --combination {cfg.combination} needs it; give a file")
    if cfg.vector_scale is None:
        cfg.vector_scale = cfg.init_range / math.sqrt(3)
    missing = str(cfg.missing_vectors)
    return vectors_for(dictionary, Path(cfg.word_vectors), missing, cfg.vector_scale or None)


# For a laptop, and for tests.
_sizes = {"small": 200, "tiny": 16}
register_presets(ARCHITECTURE, **{name: sized(lambda _: None, hidden_dim=units) for name, units in _sizes.items()})

"""Language modelling of contiguous text, for models that carry over their state."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils, iterators
from fairseq.data.indexed_dataset import MMapIndexedDataset, data_file_path
from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from omegaconf import open_dict

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.option import option
from fairseq_ext.data.data_directory import VocabularyMemory, check_vocabulary_files
from fairseq_ext.tasks.precision import Precision, PrecisionConfig


class ContiguousSegments(FairseqDataset):
    """A text divided into B rows, and the rows into segments of T tokens; an item is one segment of all rows.

    ::

        a b c d e f g h i j k     B = 2, T = 4:     a b c d | e f
                                                    g h i j | k -

    Every token is a target exactly once; only the ends of the last rows are padded. The input at each position is the
    previous token: a row continues the row before, and the text starts after an end-of-sentence symbol. Tokens are
    copied one segment at a time, so that a memory-mapped text takes no memory.
    """

    def __init__(self, tokens: np.ndarray, rows: int, length: int, pad: int, eos: int):
        self.tokens, self.rows, self.length = tokens, rows, length
        self.pad, self.eos = pad, eos
        self._width = -(-len(tokens) // rows)  # length of a row

    def __len__(self) -> int:
        return -(-self._width // self.length)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return the segment with this index, as a batch."""
        start = index * self.length
        length = min(self.length, self._width - start)
        source, target = np.full((2, self.rows, length), self.pad)
        for row in range(self.rows):
            begin = row * self._width + start
            part = self.tokens[begin : begin + length]
            target[row, : len(part)] = part
            before = self.tokens[begin - 1 : begin] if begin else [self.eos]
            source[row, : len(part)] = np.concatenate([before, part[:-1]])[: len(part)]
        return {
            "id": torch.arange(self.rows) + index * self.rows,
            "nsentences": self.rows,
            "ntokens": int((target != self.pad).sum()),
            "net_input": {
                "src_tokens": torch.from_numpy(source),
                "src_lengths": torch.from_numpy((source != self.pad).sum(1)),
                "segment": index,
            },
            "target": torch.from_numpy(target),
        }

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the only segment of a batch."""
        (sample,) = samples
        return sample


@dataclass
class ContiguousLanguageModelingConfig(PrecisionConfig, LanguageModelingConfig):
    tokens_per_sample: int = option(40, "T: length of a segment in tokens, also that of backpropagation (default: 40)")


@register_task("contiguous_language_modeling", dataclass=ContiguousLanguageModelingConfig)
class ContiguousLanguageModelingTask(VocabularyMemory, Precision, LanguageModelingTask):
    """fairseq's language modelling task, with text that continues from batch to batch (truncated backpropagation).

    The data are those of ``fairseq-preprocess --only-source``. A text is divided into ``--batch-size`` rows; a batch is
    a segment of ``--tokens-per-sample`` tokens of all rows, and the next batch is the next segment. Models get its
    index, ``segment``: they start from zero states if it is 0 and continue otherwise. All text is read in order, also
    in training. Validation has ``--batch-size-valid`` rows; ``fairseq-eval-lm`` has ``--batch-size`` rows (default: 1).
    """

    def __init__(self, cfg: Any, dictionary: Any, output_dictionary: Any = None, targets: Any = None):
        super().__init__(cfg, dictionary, output_dictionary, targets)
        self.cfg = cfg

    @classmethod
    def setup_dictionary(cls, cfg: Any, **kwargs: Any) -> Any:
        if not cfg.data or not (Path(cfg.data) / "dict.txt").is_file():
            raise InputError(f"{cfg.data or 'data'}: has no dict.txt; create it with fairseq-preprocess --only-source")
        check_vocabulary_files(Path(cfg.data))
        return super().setup_dictionary(cfg, **kwargs)

    def dictionaries(self) -> dict[str, Any]:
        return {"dict.txt": self.dictionary}

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        model = super().build_model(cfg, from_checkpoint)
        # fairseq passes models a copy of the options that it saves.
        with open_dict(cfg):
            cfg.update(getattr(model, "found_options", {}))
        return model

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **_: Any) -> ContiguousSegments:  # type: ignore[override]
        path = Path(self.cfg.data) / split
        text = data_utils.load_indexed_dataset(str(path), self.dictionary, self.cfg.dataset_impl, combine=combine)
        if text is None:
            raise InputError(f"{path}.bin: not found; create it with fairseq-preprocess --only-source")
        tokens = _tokens_of(text, path) if len(text) else np.zeros(0)
        rows = (self.cfg.batch_size_valid if split.startswith("valid") else self.cfg.batch_size) or 1
        if len(tokens) < rows:
            raise InputError(f"{path}.bin: {len(tokens)} tokens are too few for --batch-size {rows}; set a smaller one")
        pad, eos = self.dictionary.pad(), self.dictionary.eos()
        self.datasets[split] = ContiguousSegments(tokens, rows, self.cfg.tokens_per_sample, pad, eos)
        return self.datasets[split]

    def get_batch_iterator(self, dataset: Any, **options: Any) -> iterators.EpochBatchIterator:  # type: ignore[override]
        """Return all segments in order; for prompts to continue, return fairseq's batches."""
        if not isinstance(dataset, ContiguousSegments):
            return super().get_batch_iterator(dataset, **options)
        if options.get("num_shards", 1) > 1:
            raise InputError(
                f"{options['num_shards']} processes: this task reads contiguous text in one process; set "
                "--distributed-world-size 1"
            )
        return iterators.EpochBatchIterator(
            dataset,
            collate_fn=dataset.collater,
            batch_sampler=[[index] for index in range(len(dataset))],
            num_workers=options.get("num_workers", 0),
            epoch=options.get("epoch", 1),
            buffer_size=options.get("data_buffer_size", 0),
            disable_shuffling=True,
        )


def _tokens_of(text: Any, path: Path) -> np.ndarray:
    """Return all tokens of a binarised text, memory-mapped if it is one mapped file."""
    if not isinstance(text, MMapIndexedDataset):
        return np.concatenate([text[index].numpy() for index in range(len(text))])
    return np.memmap(data_file_path(str(path)), dtype=text._index.dtype, mode="r")

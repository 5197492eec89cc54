"""Data at the paper's size: the start of an epoch in one rank, and opening and reading labels.

Lengths of sentence pairs are simulated; there is no text. Starting an epoch includes its table, order, filter and
batches, and fairseq's iterator over them, while the batches of the previous epoch are held in memory. Memory is the
increase during a round (Linux).
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.shared.cases import Case, Ready

if TYPE_CHECKING:
    import numpy as np

UNIT = "rows/s"
_LIMITS = (1024, 1024)
_BATCH = {"max_tokens": 4096, "required_batch_size_multiple": 8}
_SPLIT, _BATCHES, _SENTENCES = "train", 1000, 32
_STATUS, _RESET_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Lengths:
    """The parts of a corpus of sentence pairs that are needed to plan batches."""

    def __init__(self, sizes: np.ndarray) -> None:
        self.sizes = sizes

    def __len__(self) -> int:
        return len(self.sizes)


class Training:
    """Epochs of a simulated training set.

    Args:
        rows: rows of an epoch, over all domains.
        domains: number of domains; each has half as many pairs as the previous one.
        upsampling: value of the task's option.
    """

    def __init__(self, rows: int, domains: int, upsampling: str) -> None:
        import numpy as np

        from fairseq_ext.data.domain_pairs import DomainPairs, PairCorpus
        from fairseq_ext.data.multi_domain_dataset import upsampling_repetitions

        shares = 2.0 ** -np.arange(domains)
        repetitions = upsampling_repetitions([max(1, int(share * 1e6)) for share in shares], upsampling, 5)
        counts = np.maximum(1, shares * rows / (shares * repetitions).sum()).astype(int)
        rng = np.random.default_rng(1)
        pairs: list[Any] = [PairCorpus(_lengths(count, rng), number) for number, count in enumerate(counts)]
        self.dataset = DomainPairs(pairs, repetitions)
        self.epoch = 1
        self.held: Any = None
        self.whole()

    def table(self) -> None:
        """Draw the table of the next epoch."""
        self.epoch += 1
        self.dataset.set_epoch(self.epoch)

    def order(self) -> None:
        self.indices = self.dataset.ordered_indices()

    def filter(self) -> None:
        self.kept, _ = self.dataset.filter_indices_by_size(self.indices, _LIMITS)

    def batch(self) -> None:
        self.batches = self.dataset.batch_by_size(self.kept, **_BATCH)

    def whole(self) -> None:
        """Start an epoch as fairseq does."""
        from fairseq.data.iterators import EpochBatchIterator

        self.table()
        self.order()
        self.filter()
        self.batch()
        iterator = EpochBatchIterator(
            self.dataset, self.dataset.collater, self.batches, num_shards=8, shard_id=1, epoch=self.epoch
        )
        iterator.next_epoch_itr(shuffle=True)
        self.held = iterator


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=11_000_000, help="sentence pairs of an epoch")
    parser.add_argument(
        "--domains", type=int, default=6, help="number of domains, each half as large as the previous one"
    )
    parser.add_argument(
        "--upsampling", nargs="+", default=["none", "max"], help="values to measure: none, max, temperature"
    )
    parser.add_argument("--labels", type=int, default=33_000_000, help="rows of the label file")
    parser.add_argument("--label-domains", type=int, default=6, help="columns of the label file")


def cases(options: Namespace) -> list[Case]:
    found = []
    for upsampling in options.upsampling:
        for name in ("whole", "table", "order", "filter", "batch"):
            run = partial(_prepare_epoch, name, upsampling, options)
            found.append(Case(f"epoch, {upsampling}, {name}", run, options.rows, group=upsampling))
    for name, amount in (("opening", options.labels), ("reading", _BATCHES * _SENTENCES)):
        found.append(Case(f"labels, {name}", partial(_prepare_labels, name, options), amount, group="labels"))
    return found


def _prepare_epoch(name: str, upsampling: str, options: Namespace, folder: Path) -> Ready:
    training = _training(options.rows, options.domains, upsampling)
    return Ready(
        partial(_with_peak, getattr(training, name)), {"batches": len(training.batches)}, _training.cache_clear
    )


# Objects shared by the cases of a group.
@lru_cache(maxsize=1)
def _training(rows: int, domains: int, upsampling: str) -> Training:
    return Training(rows, domains, upsampling)


def _lengths(count: int, rng: np.random.Generator) -> Lengths:
    """Return lengths from 1 to 512, distributed like those of subwords, for source and target."""
    import numpy as np

    source = np.exp(rng.normal(3.1, 0.6, count))
    both = np.stack([source, source * np.exp(rng.normal(0.05, 0.25, count))], axis=1)
    return Lengths(np.clip(both.astype(np.int32) + 1, 1, 512))


def _prepare_labels(name: str, options: Namespace, folder: Path) -> Ready:
    import numpy as np

    from fairseq_ext.data.teacher_labels import label_path, read_teacher_probs, write_probs, write_teacher_record

    names = [f"domain{number}" for number in range(options.label_domains)]
    probs = np.full((options.labels, options.label_domains), 1 / options.label_domains, dtype=np.float32)
    path = label_path(folder, names[0], _SPLIT)
    write_probs(path, probs)
    write_teacher_record(folder, names, "tfidf", {})
    open_labels = partial(read_teacher_probs, folder, names[0], _SPLIT, names, options.labels)
    run: Callable[[], Any] = open_labels if name == "opening" else partial(_read_batches, open_labels())
    return Ready(partial(_with_peak, run), {"MB on disk": path.stat().st_size / 1e6})


def _read_batches(labels: Any) -> None:
    import numpy as np

    for rows in np.random.default_rng(1).integers(0, len(labels), (_BATCHES, _SENTENCES)):
        if hasattr(labels, "read_each"):
            labels.read_each([(labels, row) for row in rows])
        else:  # code that did not yet check labels on use
            np.stack([np.array(labels[row], dtype=np.float32) for row in rows])


def _with_peak(run: Callable[[], Any]) -> Mapping[str, float]:
    """Run a round, and return its memory in MiB."""
    if not _RESET_PEAK.exists():
        run()
        return {}
    _RESET_PEAK.write_text("5")
    held = _mebibytes("VmRSS")
    run()
    return {"peak": _mebibytes("VmHWM") - held}


def _mebibytes(key: str) -> float:
    return int(_STATUS.read_text().partition(f"{key}:")[2].split()[0]) / 1024

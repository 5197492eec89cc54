"""Options of fairseq's that would have no effect, or a wrong one, on data of several domains: said, not ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairseq_ext.inputs.errors import InputError

# Option: the values that are taken, and what to do instead of another.
Limits = Mapping[str, tuple[tuple[Any, ...], str]]

DATA: Limits = {
    "dataset_impl": (
        (None, "mmap", "cached"),
        "domains are read from binarised files, by mmap or cached; give one of them, or leave the option out",
    ),
}
TRANSLATION: Limits = DATA | {
    "num_batch_buckets": ((0,), "batches mix domains of other lengths; give --required-seq-len-multiple instead"),
    "load_alignments": ((False,), "word alignments are not read with domains; leave the option out"),
    "upsample_primary": ((-1, 1), "domains are up-sampled, not files; give --upsampling instead"),
}
LANGUAGE_MODELING: Limits = DATA | {
    "pad_to_fixed_bsz": ((False, None), "added rows would be of no domain; leave the option out"),
    "use_plasma_view": ((False,), "plasma is no longer part of pyarrow; leave the option out"),
}


def refuse_options(cfg: Any, limits: Limits) -> None:
    for name, (taken, remedy) in limits.items():
        value = getattr(cfg, name)
        if (value if value is None or isinstance(value, (bool, int)) else str(value)) not in taken:
            option = f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
            raise InputError(f"{option}: {remedy}")

"""Split domains by k-means on TF-IDF: ``fairseq-ext split-domains``.

The parts are for experiments with many similar domains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from fairseq_ext.corpora.entries import entry_paths, folder_entries
from fairseq_ext.corpora.parallel_files import read_parallel_files
from fairseq_ext.corpora.text_files import write_parallel
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.errors import InputError

_COLUMNS = 1 << 16  # number of hash buckets for words
_DIMENSIONS = 50  # of the space in which sentences are clustered
_STARTS = 10  # of the clustering; the best is used


def split_step(folder: Path, output: Path, langs: tuple[str, str], num_domains: int, seed: int) -> Step:
    """Return the step that splits the domains of a folder of ``DOMAIN.LANG`` files into ``num_domains`` in total.

    The step writes ``DOMAIN-1.LANG``, … Each line of a domain is in one of them, in the original order. Sentences are
    clustered by their source.
    """
    entries = folder_entries(folder, langs)
    if num_domains < len(entries):
        raise InputError(f"--domains {num_domains}: {folder} already has {len(entries)} domains; give at least as many")
    paths = {name: entry_paths(entry, langs) for name, [entry] in entries.items()}
    options = {"version": 1, "names": list(paths), "langs": langs, "domains": num_domains, "seed": seed}
    build = partial(write_split, paths=paths, langs=langs, num_domains=num_domains, seed=seed)
    return Step(output, [path for sides in paths.values() for path in sides], options, build)


def write_split(
    output: Path, paths: Mapping[str, Sequence[Path]], langs: tuple[str, str], num_domains: int, seed: int
) -> str:
    """Write the parts of each domain; a domain that is not split keeps its name."""
    corpora = {name: list(read_parallel_files((one, two), "fail", Counter())) for name, (one, two) in paths.items()}
    parts = shares([len(pairs) for pairs in corpora.values()], num_domains)
    sizes: dict[str, int] = {}
    for (name, pairs), count in zip(corpora.items(), parts, strict=True):
        labels = cluster([pair.source for pair in pairs], count, seed)
        if len(set(labels)) < count:
            raise InputError(f"{name}: has too few distinct sentences for {count} domains; lower --domains")
        for number in range(count):
            part = f"{name}-{number + 1}" if count > 1 else name
            if part in sizes:
                raise InputError(f"{name}: a part would get the name of the domain {part}; rename that domain")
            chosen = [pairs[row] for row in np.flatnonzero(labels == number)]
            write_parallel(output / f"{part}.{langs[0]}", output / f"{part}.{langs[1]}", chosen)
            sizes[part] = len(chosen)
    return f"{len(sizes)} domains of {min(sizes.values()):,} to {max(sizes.values()):,} pairs"


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """Return the number of parts of each corpus: at least one, with further parts where parts are largest."""
    parts = [1] * len(sizes)
    for _ in range(total - len(sizes)):
        parts[max(range(len(sizes)), key=lambda row: sizes[row] / parts[row])] += 1
    return parts


def cluster(texts: Sequence[str], count: int, seed: int) -> np.ndarray:
    """Return the cluster of each text, N; cluster 0 is the largest.

    Runs mini-batch k-means (Sculley 2010) on normalised singular vectors of TF-IDF. On TF-IDF itself, almost all texts
    would be in one cluster.
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
    from sklearn.preprocessing import normalize
    from threadpoolctl import threadpool_limits

    if count == 1 or len(set(texts)) < count:
        return np.zeros(len(texts), dtype=np.int64)
    words = HashingVectorizer(n_features=_COLUMNS, alternate_sign=False, norm=None, token_pattern=r"\w+")
    weights = TfidfTransformer(sublinear_tf=True).fit_transform(words.transform(texts))
    # One thread, since the rounding of sums depends on the number of threads.
    with threadpool_limits(1):
        points = normalize(TruncatedSVD(_DIMENSIONS, random_state=seed).fit_transform(weights))
        found = MiniBatchKMeans(count, random_state=seed, n_init=_STARTS).fit_predict(points)
    order = np.argsort(-np.bincount(found, minlength=count), kind="stable")
    return np.argsort(order)[found]

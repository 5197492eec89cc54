"""Where the domains of sentences to translate come from: --domain, the data, a classifier, or uniform weights."""

import numpy as np

from fairseq_ext.base.domain_names import BASE_ROUTE
from fairseq_ext.base.errors import InputError
from fairseq_ext.data.teacher_labels import DomainShares, TeacherLabels
from fairseq_ext.models.adapter_transformer import NO_ADAPTER
from fairseq_ext.tasks.translation_options import CLASSIFIER, NONE, ORACLE, SOFT, UNIFORM, MultiDomainTranslationConfig

# The domain of all sentences of a corpus or of each, and weights of all domains instead.
Routing = tuple[np.ndarray | int | None, DomainShares | np.ndarray | None]


def routing_of(
    cfg: MultiDomainTranslationConfig,
    domains: list[str],
    domain_id: int,
    labels: TeacherLabels | None,
    num_rows: int,
    needs_domains: bool,
) -> Routing:
    """Return the domains for translating a validation or test corpus, or weights of all domains.

    Args:
        domain_id: the corpus's own domain.
        labels: labels of its sentences by a classifier.
        needs_domains: whether the model has plain adapters.
    """
    source, number = str(cfg.domain_source), len(domains)
    if cfg.domain:
        return NO_ADAPTER if cfg.domain == BASE_ROUTE else domains.index(cfg.domain), None
    if source in (CLASSIFIER, SOFT):
        if labels is None:
            raise InputError(f"--domain-source {source}: needs the classifier's labels; set --teacher-dir")
        return (None, DomainShares(labels, number)) if source == SOFT else (_best(cfg, number, labels), None)
    if source == UNIFORM:
        return None, np.broadcast_to(uniform_weights(number), (num_rows, number))
    if source == NONE and needs_domains:
        raise InputError(
            "plain adapters need a domain; set --domain-source to oracle or classifier, or set --domain NAME"
        )
    return (domain_id if source == ORACLE else None), None


def _best(cfg: MultiDomainTranslationConfig, num_domains: int, labels: TeacherLabels) -> np.ndarray:
    """Return the domain of each sentence; models that read tags have no base, and take the likeliest domain."""
    if cfg.domain_tags:
        return DomainShares(labels, num_domains)[:].argmax(1)
    best = labels.best(cfg.least_certainty)
    return np.where((best >= 0) & (best < num_domains), best, NO_ADAPTER)


def uniform_weights(num_domains: int) -> np.ndarray:
    """Return D equal weights."""
    return np.full(num_domains, 1 / num_domains, dtype=np.float32)

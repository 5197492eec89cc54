"""Every option of ours explains itself and says its default."""

from argparse import ArgumentParser

import pytest

from fairseq_ext.criterions.label_smoothed_cross_entropy_with_kd_gate import (
    LabelSmoothedCrossEntropyWithKDGateCriterion,
)
from fairseq_ext.criterions.topic_language_modeling import TopicLanguageModelingCriterion
from fairseq_ext.models.roberta_houlsby_adapter import RobertaHoulsbyAdapterModel
from fairseq_ext.models.transformer_domain_adapter import TransformerDomainAdapterModel
from fairseq_ext.models.transformer_gated_adapter import TransformerGatedAdapterModel
from fairseq_ext.models.transformer_lm_topic import TransformerLMTopicModel
from fairseq_ext.tasks.multi_domain_language_modeling import MultiDomainLanguageModelingTask
from fairseq_ext.tasks.multi_domain_translation import MultiDomainTranslationTask

OPTIONS = {
    RobertaHoulsbyAdapterModel: {
        "bottleneck-dim", "adapter-init-scale", "adapter-activation-fn", "tuning", "top-layers", "frozen-mode",
    },
    TransformerDomainAdapterModel: {"bottleneck-dim", "adapter-init-scale", "frozen-mode"},
    TransformerGatedAdapterModel: {
        "bottleneck-dim", "adapter-init-scale", "frozen-mode", "gate-temperature", "share-gates",
    },
    TransformerLMTopicModel: {
        "num-topics", "topic-transformation", "mixture", "mixture-chunk", "freeze-output-embedding",
        "frozen-mode",
    },
    TopicLanguageModelingCriterion: {"tdm", "tdm-margin", "tdm-weight"},
    LabelSmoothedCrossEntropyWithKDGateCriterion: {
        "gate-loss-weight", "gate-loss-temperature", "gate-target", "gate-encoder-term", "gate-balance-weight",
    },
    MultiDomainTranslationTask: {
        "teacher-dir", "upsampling", "upsampling-temperature", "domain-tags", "domain-source", "domain",
        "print-gates", "gates-output", "train-domains",
    },
    MultiDomainLanguageModelingTask: {
        "upsampling", "upsampling-temperature", "train-domains", "single-domain-batches", "domain", "paths",
        "choose-paths", "num-paths", "choose-tokens", "unscored-tokens", "topic",
    },
}  # fmt: skip


@pytest.mark.parametrize("owner", OPTIONS, ids=lambda owner: owner.__name__)
def test_options_explain_themselves(owner: type) -> None:
    parser = ArgumentParser(allow_abbrev=False)
    owner.add_args(parser)  # type: ignore[attr-defined]
    actions = {a.option_strings[0].removeprefix("--"): a for a in parser._actions if a.option_strings}
    assert OPTIONS[owner] <= actions.keys()
    for name in OPTIONS[owner]:
        assert actions[name].help
        assert "(default: " in actions[name].help, name

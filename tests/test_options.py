"""Every option of ours explains itself and says its default."""

from argparse import ArgumentParser

import pytest

from fairseq_ext.criterions.label_smoothed_cross_entropy_with_kd_gate import (
    LabelSmoothedCrossEntropyWithKDGateCriterion,
)
from fairseq_ext.criterions.topic_language_modeling import TopicLanguageModelingCriterion
from fairseq_ext.models.transformer_gated_adapter import TransformerGatedAdapterModel
from fairseq_ext.models.transformer_lm_topic import TransformerLMTopicModel
from fairseq_ext.tasks.multi_domain_language_modeling import MultiDomainLanguageModelingTask
from fairseq_ext.tasks.multi_domain_translation import MultiDomainTranslationTask

# Some options of each.
OPTIONS = {
    TransformerGatedAdapterModel: {"bottleneck-dim", "frozen-mode", "gate-temperature", "share-gates"},
    TransformerLMTopicModel: {"num-topics", "mixture", "frozen-mode"},
    TopicLanguageModelingCriterion: {"tdm", "tdm-margin", "tdm-weight"},
    LabelSmoothedCrossEntropyWithKDGateCriterion: {"gate-loss-weight", "gate-target", "gate-balance-weight"},
    MultiDomainTranslationTask: {"teacher-dir", "domain-source", "print-gates", "train-domains"},
    MultiDomainLanguageModelingTask: {"single-domain-batches", "paths", "choose-paths", "topic"},
}


@pytest.mark.parametrize("owner", OPTIONS, ids=lambda owner: owner.__name__)
def test_options_explain_themselves(owner: type) -> None:
    parser = ArgumentParser(allow_abbrev=False)
    owner.add_args(parser)  # type: ignore[attr-defined]
    actions = {a.option_strings[0].removeprefix("--"): a for a in parser._actions if a.option_strings}
    assert OPTIONS[owner] <= actions.keys()
    for name in OPTIONS[owner]:
        assert "(default: " in actions[name].help, name

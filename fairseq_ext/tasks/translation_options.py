"""Options of the translation task."""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig

from fairseq_ext.base.option import option
from fairseq_ext.data.language_tokens import STYLES
from fairseq_ext.tasks.multi_domain_task import MultiDomainConfig
from fairseq_ext.tasks.output_symbols import OutputSymbolsConfig

# Values of --domain-source.
ORACLE, CLASSIFIER, SOFT, UNIFORM, NONE = "oracle", "classifier", "classifier-soft", "uniform", "none"


@dataclass
class MultiDomainTranslationConfig(MultiDomainConfig, OutputSymbolsConfig, TranslationConfig):
    teacher_dir: str = option(
        "",
        "directory of the domain classifier's probabilities, DOMAIN/SPLIT.npy, as written by "
        "fairseq-ext teacher (default: none)",
    )
    general_text: str = option(
        "",
        "for --gate-base: directory with binarised general text, SPLIT.SRC-TGT.{SRC,TGT} (default: the sub-directory "
        "base of the data)",
    )
    least_certainty: float = option(
        0.0,
        "with --domain-source classifier: sentences whose likeliest domain has a smaller probability are translated by "
        "the base alone (default: 0.0, none)",
    )
    domain_tags: bool = option(False, "TAG: prepend its domain's tag to every source sentence (default: no tags)")
    domain_source: ChoiceEnum([ORACLE, CLASSIFIER, SOFT, UNIFORM, NONE]) = option(  # type: ignore[valid-type]
        "oracle",
        "domain of validation and test sentences: their sub-directory (oracle), the best label in "
        "--teacher-dir (classifier), its probabilities as weights of plain adapters (classifier-soft), "
        "uniform weights (uniform), or none; training uses the sub-directory (default: oracle)",
    )
    domain: str = option(
        "",
        "translate everything with this domain, or with the base alone (base), even with gates (default: see "
        "--domain-source)",
    )
    language_tokens: ChoiceEnum(["none", *STYLES]) = option(  # type: ignore[valid-type]
        "none",
        "language tokens of a multilingual model, as in fairseq's task for it: mbart ends sentences with "
        "[LANG] (translation_from_pretrained_bart), mbart50 and m2m begin them with [LANG] and __LANG__ "
        "(translation_multi_simple_epoch --encoder-langtok src --decoder-langtok), marian begins the source with "
        ">>TARGET<< (default: as in language-tokens.txt of the data directory, else none)",
    )
    langs: str = option(
        "",
        "all languages of the pretrained model, separated by commas, in its order; their tokens for "
        "--language-tokens are added to the dictionaries if missing (default: none)",
    )
    print_gates: bool = option(
        False, "print a line G-ID with each sentence's gate weights, averaged over all layers (default: no)"
    )
    gates_output: str = option("", "JSONL file for each sentence's gate weights by layer (default: none)")

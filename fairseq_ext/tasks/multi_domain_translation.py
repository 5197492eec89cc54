"""Translation of text from several known domains between two languages."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationTask, load_langpair_dataset
from omegaconf import DictConfig, open_dict

from fairseq_ext.base.domain_names import BASE_ROUTE, DOMAINS_FILE
from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.base.option import names_in
from fairseq_ext.data.data_directory import infer_languages, split_directories
from fairseq_ext.data.domain_pairs import DomainPairs, PairCorpus, general_corpus
from fairseq_ext.data.language_tokens import (
    STYLES,
    LanguageDictionary,
    language_tokens,
    read_language_tokens,
)
from fairseq_ext.data.teacher_labels import read_teacher_probs
from fairseq_ext.models.adapter_transformer import ignore_domains
from fairseq_ext.models.checkpoints import check_fit
from fairseq_ext.tasks.gate_report import GateReport
from fairseq_ext.tasks.multi_domain_task import DataSplit, MultiDomainTask
from fairseq_ext.tasks.output_symbols import OutputSymbols
from fairseq_ext.tasks.sentence_domains import Routing, TypedDomains, routing_of
from fairseq_ext.tasks.translation_inference import TranslationInference
from fairseq_ext.tasks.translation_options import SOFT, UNIFORM, MultiDomainTranslationConfig
from fairseq_ext.text.subwords import LANGUAGE_TOKENS_FILE


@register_task("multi_domain_translation", dataclass=MultiDomainTranslationConfig)
class MultiDomainTranslationTask(OutputSymbols, MultiDomainTask, TranslationInference, TranslationTask):
    """fairseq's translation task over a data directory with one sub-directory per domain.

    ::

        data-bin/domains.txt                      sorted names of the domains
        data-bin/dict.SRC.txt, dict.TGT.txt       with a tag <domain:NAME> for each domain
        data-bin/language-tokens.txt              for bases with language tokens: style, source, target
        data-bin/sentencepiece.TGT.model          for bases with a separate model for the target
        data-bin/DOMAIN/SPLIT.SRC-TGT.{SRC,TGT}.{bin,idx}
        teacher/DOMAIN/SPLIT.npy                  --teacher-dir, N×D

    A split such as ``test`` contains all domains in order, ``test:DOMAIN`` one domain.
    """

    cfg: MultiDomainTranslationConfig
    measures = ("loss", "bleu")
    limits = {
        **MultiDomainTask.limits,
        "num_batch_buckets": ((0,), "domains have different lengths; use --required-seq-len-multiple instead"),
        "load_alignments": ((False,), "word alignments cannot be used with domains; remove the option"),
        "upsample_primary": ((-1, 1), "domains are upsampled, not files; use --upsampling instead"),
    }

    def __init__(self, cfg: MultiDomainTranslationConfig, src_dict: LanguageDictionary, tgt_dict: LanguageDictionary):
        super().__init__(cfg, src_dict, tgt_dict)
        self.set_directories()
        if cfg.teacher_dir and len(self.directories) > 1:
            raise InputError("--teacher-dir: has labels of one data directory; give only one data directory")
        self.typed_domains = TypedDomains(self.domains, src_dict, may_be_base=not cfg.domain_tags)
        if cfg.domain:
            check_choice(cfg.domain, self.typed_domains.domains, "--domain")
        self.language_style, languages = self._language_tokens()
        self.language_tokens = language_tokens(self.language_style, languages, src_dict, tgt_dict)
        tgt_dict.cut = self._target_cutter()
        self.model_takes_domains = self.model_needs_domains = self.learns_base = False
        self.gate_report = GateReport(self.domains, cfg.print_gates, cfg.gates_output)
        self.domain_source = str(cfg.domain_source)
        if cfg.domain_tags:
            self.typed_domains.require(self.directories[0] / f"dict.{cfg.source_lang}.txt")
            if self.domain_source in (SOFT, UNIFORM) and not cfg.domain:
                raise InputError(
                    f"--domain-source {self.domain_source}: cannot be used with --domain-tags; set oracle or classifier"
                )
            if self.language_tokens.source is not None:
                raise InputError("--domain-tags: cannot be used with --language-tokens; use adapters instead")

    @classmethod
    def setup_task(cls, cfg: MultiDomainTranslationConfig, **_: Any) -> "MultiDomainTranslationTask":
        data = split_directories(cfg.data)[0]
        if cfg.source_lang is None or cfg.target_lang is None:
            _set_languages(cfg, *infer_languages(data))
        dictionaries = []
        for language in (cfg.source_lang, cfg.target_lang):
            path = data / f"dict.{language}.txt"
            if not path.is_file():
                raise InputError(f"{path}: not found; binarise the data with fairseq-ext prepare")
            dictionaries.append(_load_dictionary(str(path), cfg))
        return cls(cfg, *dictionaries)

    def dictionaries(self) -> dict[str, Dictionary]:
        languages = (self.cfg.source_lang, self.cfg.target_lang)
        names = [f"dict.{language}.txt" for language in languages]
        return dict(zip(names, (self.src_dict, self.tgt_dict), strict=True))

    def _language_tokens(self) -> tuple[str, tuple[str, str]]:
        """Return the style of language tokens and the languages, from the options or the data directory."""
        path, style = self.directories[0] / LANGUAGE_TOKENS_FILE, str(self.cfg.language_tokens)
        noted = read_language_tokens(path) if path.is_file() else None
        return noted if noted and style in ("none", noted[0]) else (style, (self.cfg.source_lang, self.cfg.target_lang))

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        self._record(cfg, from_checkpoint)
        model = super().build_model(cfg, from_checkpoint)
        model.register_load_state_dict_pre_hook(check_fit)
        takes_domains = hasattr(model, "needs_domains")
        if not takes_domains:
            ignore_domains(model)
        # The models of an ensemble are built one by one.
        self.model_takes_domains |= takes_domains
        self.model_needs_domains |= getattr(model, "needs_domains", False)
        self.learns_base |= getattr(model, "learns_base", False)
        return model

    def _record(self, cfg: Any, from_checkpoint: bool) -> None:
        """Store the use of domain tags and language tokens in a new model's options; check those of checkpoints."""
        tags, style = getattr(cfg, "domain_tags", None), getattr(cfg, "language_tokens", None)
        if from_checkpoint and tags is not None and bool(tags) != self.cfg.domain_tags:
            trained = "with --domain-tags; add the option" if tags else "without --domain-tags; remove the option"
            raise InputError(f"the checkpoint was trained {trained}; an ensemble cannot mix both kinds of models")
        if from_checkpoint and style is not None and str(style) != self.language_style:
            raise InputError(
                f"--language-tokens {self.language_style}: the checkpoint was trained with {style}; set {style}"
            )
        with open_dict(cfg) if isinstance(cfg, DictConfig) else nullcontext():
            cfg.domain_tags, cfg.language_tokens = self.cfg.domain_tags, self.language_style

    # Data

    def extra_training_text(self) -> Sequence[str]:
        return [BASE_ROUTE] if self.learns_base else []

    def load_corpus(self, split: DataSplit, domain: str) -> PairCorpus:
        pairs = self.language_tokens.add_to_pairs(self._load_pairs(split, domain))
        if domain == BASE_ROUTE:
            return general_corpus(pairs, len(self.domains), bool(self.cfg.teacher_dir))
        domain_id = self.domains.index(domain)
        labels = None
        if self.cfg.teacher_dir:
            labels = read_teacher_probs(Path(self.cfg.teacher_dir), domain, split.name, self.domains, len(pairs))
            if self.learns_base and labels.raw.shape[1] == len(self.domains):
                raise InputError("--gate-base: the teacher has no class base; train it with teacher: base_text")
        routing: Routing = (domain_id, None)
        if not split.is_train:
            routing = routing_of(self.cfg, self.domains, domain_id, labels, len(pairs), self.model_needs_domains)
        return PairCorpus(pairs, domain_id, *routing, labels)

    def join_corpora(
        self, corpora: Sequence[PairCorpus], repetitions: Sequence[float] | None, is_train: bool
    ) -> DomainPairs:
        return DomainPairs(
            corpora,
            repetitions=repetitions,
            seed=self.cfg.seed,
            tags=self.typed_domains.indices if self.cfg.domain_tags else None,
            domains_to_model=self.model_takes_domains,
            # Only --domain overrides gates; known domains do not.
            forces_domains=bool(self.cfg.domain) and not is_train,
            single_domain_batches=not is_train,
        )

    def _load_pairs(self, split: DataSplit, domain: str) -> LanguagePairDataset:
        directory = split.directory / domain
        if domain == BASE_ROUTE and self.cfg.general_text:
            directory = Path(self.cfg.general_text)
        source, target = self.cfg.source_lang, self.cfg.target_lang
        opening = int(self.cfg.domain_tags or self.language_tokens.source is not None)
        if any(path.stat().st_size == 0 for path in directory.glob(f"{split.name}.{source}-{target}.*.bin")):
            raise InputError(f"{directory}: split {split.name} is empty; a domain needs at least one sentence pair")
        try:
            return load_langpair_dataset(
                str(directory), split.name, source, self.src_dict, target, self.tgt_dict,
                combine=split.is_combined,
                dataset_impl=self.cfg.dataset_impl,
                upsample_primary=1,
                left_pad_source=self.cfg.left_pad_source,
                left_pad_target=self.cfg.left_pad_target,
                # Only used by --truncate-source, which must leave room for a tag or a language token.
                max_source_positions=self.cfg.max_source_positions - opening,
                max_target_positions=self.cfg.max_target_positions,
                truncate_source=self.cfg.truncate_source,
                pad_to_multiple=self.cfg.required_seq_len_multiple,
            )  # fmt: skip
        except FileNotFoundError:
            if domain == BASE_ROUTE:
                raise InputError(f"--gate-base: {directory} has no {split.name} set; binarise general text") from None
            raise InputError(
                f"{directory}/{split.name}.{source}-{target}.{source}.idx: not found; "
                f"binarise this split, or remove domain {domain} from {DOMAINS_FILE}"
            ) from None


def _load_dictionary(path: str, cfg: MultiDomainTranslationConfig) -> LanguageDictionary:
    """Load the dictionary of a language, and add the tokens of --langs."""
    languages = names_in(cfg.langs)
    dictionary = LanguageDictionary.load(path)
    if languages and str(cfg.language_tokens) == "none":
        raise InputError("--langs: needs --language-tokens; set the style of language tokens that the model uses")
    if languages:
        dictionary.add_languages(STYLES[str(cfg.language_tokens)], languages)
    return dictionary


def _set_languages(cfg: Any, source: str, target: str) -> None:
    """Set the languages in this task's options and in those that checkpoints store, for use without the data."""
    whole = cfg._get_parent() if isinstance(cfg, DictConfig) else None
    for options in (cfg, None if whole is None else whole.get("task")):
        if options is not None:
            options.source_lang, options.target_lang = source, target

"""Translation of text from several known domains between two languages."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask, load_langpair_dataset
from omegaconf import DictConfig, open_dict
from torch import Tensor

from fairseq_ext.base.domain_names import BASE_ROUTE, DOMAINS_FILE
from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.base.option import names_in, option
from fairseq_ext.data.data_directory import infer_languages, split_directories
from fairseq_ext.data.domain_pairs import DomainPairs, PairCorpus, general_corpus
from fairseq_ext.data.language_tokens import (
    STYLES,
    CutText,
    LanguageDictionary,
    language_tokens,
    read_language_tokens,
)
from fairseq_ext.data.teacher_labels import DomainShares, TeacherLabels, read_teacher_probs
from fairseq_ext.models.adapter_transformer import NO_ADAPTER, ignore_domains
from fairseq_ext.models.checkpoints import check_fit
from fairseq_ext.tasks.gate_report import GateReport, attach_gates
from fairseq_ext.tasks.multi_domain_task import DataSplit, MultiDomainConfig, MultiDomainTask
from fairseq_ext.tasks.output_symbols import OutputSymbols, OutputSymbolsConfig
from fairseq_ext.tasks.typed_domains import TypedDomains
from fairseq_ext.text.subwords import LANGUAGE_TOKENS_FILE, encode_lines, load_subwords, own_model_name

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
    gates_by_token: bool = option(
        False, "with --gates-output, also write the decoder's weights at each target token (default: no)"
    )


@register_task("multi_domain_translation", dataclass=MultiDomainTranslationConfig)
class MultiDomainTranslationTask(OutputSymbols, MultiDomainTask, TranslationTask):
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
        self.language_style, languages = self._told_languages()
        self.language_tokens = language_tokens(self.language_style, languages, src_dict, tgt_dict)
        tgt_dict.cut = self._target_cutter()
        self.model_takes_domains = self.model_needs_domains = self.learns_base = False
        self.gate_report = GateReport(self.domains, cfg.print_gates, cfg.gates_output, cfg.gates_by_token)
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

    def _told_languages(self) -> tuple[str, tuple[str, str]]:
        """Return the style of language tokens and the languages, from the options or the data directory."""
        path, style = self.directories[0] / LANGUAGE_TOKENS_FILE, str(self.cfg.language_tokens)
        told = read_language_tokens(path) if path.is_file() else None
        return told if told and style in ("none", told[0]) else (style, (self.cfg.source_lang, self.cfg.target_lang))

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
        return PairCorpus(pairs, domain_id, *self._route(domain_id, labels, len(pairs), split.is_train), labels)

    def join_corpora(
        self, corpora: Sequence[PairCorpus], repetitions: Sequence[float] | None, is_train: bool
    ) -> DomainPairs:
        return DomainPairs(
            corpora,
            repetitions,
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

    def _route(
        self, domain_id: int, labels: TeacherLabels | None, num_rows: int, is_train: bool
    ) -> tuple[np.ndarray | int | None, DomainShares | np.ndarray | None]:
        """Return the domains for translating a corpus, or weights of all domains, by --domain and --domain-source."""
        if is_train:
            return domain_id, None
        if self.cfg.domain:
            return NO_ADAPTER if self.cfg.domain == BASE_ROUTE else self.domains.index(self.cfg.domain), None
        source = self.domain_source
        if source in (CLASSIFIER, SOFT):
            if labels is None:
                raise InputError(f"--domain-source {source}: needs the classifier's labels; set --teacher-dir")
            return (None, DomainShares(labels, len(self.domains))) if source == SOFT else (self._best(labels), None)
        if source == UNIFORM:
            return None, np.broadcast_to(_uniform(len(self.domains)), (num_rows, len(self.domains)))
        if source == NONE and self.model_needs_domains:
            raise InputError(
                "plain adapters need a domain; set --domain-source to oracle or classifier, or set --domain NAME"
            )
        return (domain_id if source == ORACLE else None), None

    def _best(self, labels: TeacherLabels) -> np.ndarray:
        """Return the domain of each sentence; models that read tags have no base, and take the likeliest domain."""
        if self.cfg.domain_tags:
            return DomainShares(labels, len(self.domains))[:].argmax(1)
        best = labels.best(self.cfg.least_certainty)
        return np.where((best >= 0) & (best < len(self.domains)), best, NO_ADAPTER)

    # Inference

    def build_generator(
        self, models: list, args: Any, seq_gen_cls: Any = None, extra_gen_cls_kwargs: dict | None = None, **kwargs: Any
    ) -> Any:
        """Build fairseq's search or scorer; if the models require it, the target's language token ends sentences."""
        if self.language_tokens.end is None:
            return super().build_generator(models, args, seq_gen_cls, extra_gen_cls_kwargs, **kwargs)
        if not getattr(args, "score_reference", False):
            extra_gen_cls_kwargs = {**(extra_gen_cls_kwargs or {}), "eos": self.language_tokens.end}
        generator = super().build_generator(models, args, seq_gen_cls, extra_gen_cls_kwargs, **kwargs)
        generator.eos = self.language_tokens.end
        return generator

    def encode_line(self, line: str, encode_fn: Callable[[str], str], domain: str | None = None) -> Tensor:
        """Encode a line with a domain's tag in front: the tag that it begins with, else ``domain``, else --domain."""
        typed, text = self.typed_domains.split_line(line)
        return self.typed_domains.tag(self.encode_text(text, encode_fn), typed or domain or self.cfg.domain or None)

    def encode_text(self, text: str, encode_fn: Callable[[str], str]) -> Tensor:
        """Encode a text without a domain tag, and add the language tokens that the model needs."""
        tokens = self.src_dict.encode_line(encode_fn(text), add_if_not_exist=False).long()
        return self.language_tokens.add_to_source(self.typed_domains.as_text(tokens, text))

    def _target_cutter(self) -> Callable[[str], str] | None:
        """Return a function that segments target text into subwords; None if it shares the source's subwords."""
        path = self.directories[0] / own_model_name(self.cfg.target_lang)
        if not path.is_file():
            return None
        processor = load_subwords(path)
        return lambda text: next(encode_lines(processor, [text]))

    def build_bpe(self, args: Any) -> Any:
        """Build fairseq's source subwords; keep the original text, so that it can be segmented as a target."""
        bpe = super().build_bpe(args)
        if bpe is not None and self.tgt_dict.cut is not None:
            cut = bpe.encode
            bpe.encode = lambda text: CutText(cut(text), text)
        return bpe

    def get_interactive_tokens_and_lengths(self, lines: Iterable[str], encode_fn: Any) -> tuple[list, list]:
        """Encode typed lines; a tag ``<domain:NAME>`` in front of a line selects its domain."""
        tokens = [self.encode_line(line, encode_fn) for line in lines]
        return tokens, [len(line) for line in tokens]

    def build_dataset_for_inference(self, src_tokens: list, src_lengths: Any, constraints: Any = None) -> Any:
        """Build a dataset of lines typed or passed from Python; those without a domain take --domain."""
        tokens = [self.typed_domains.tag(line, self.cfg.domain or None) for line in src_tokens]
        self.gate_report.expect(tokens)
        return super().build_dataset_for_inference(tokens, [len(line) for line in tokens], constraints=constraints)

    def inference_step(
        self,
        generator: Any,
        models: list,
        sample: dict,
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        with_gates: bool = False,
    ) -> list:
        """Translate a batch with fairseq; add gate weights if requested, see :func:`attach_gates`."""
        if "domain_ids" not in sample:  # typed lines have their domain as a tag
            typed_tokens = sample["net_input"]["src_tokens"]
            sample = dict(sample, typed_tokens=typed_tokens, net_input=self._read_tags(sample["net_input"]))
        if prefix_tokens is None and self.language_tokens.prefix is not None:
            rows = sample["net_input"]["src_tokens"]
            prefix_tokens = rows.new_full((len(rows), 1), self.language_tokens.prefix)
        hypotheses = super().inference_step(generator, models, sample, prefix_tokens, constraints)
        if with_gates or self.gate_report.is_wanted:
            attach_gates(models, sample["net_input"], hypotheses, self.tgt_dict)
        if self.gate_report.is_wanted:
            self.gate_report.add(sample, hypotheses, self.tgt_dict.pad())
        return hypotheses

    def _read_tags(self, net_input: dict) -> dict:
        """Convert tags of sentences into ``domain_ids`` if models use them; remove tags that models do not read."""
        tokens = net_input["src_tokens"]
        domain_ids = self.typed_domains.read(tokens)
        is_tagged = domain_ids.ge(0)
        reads_tags = self.cfg.domain_tags and self.domain_source != NONE
        is_uniform = self.domain_source == UNIFORM and not is_tagged.any()
        if (self.model_needs_domains or reads_tags) and not is_uniform and not is_tagged.all():
            kind = "plain adapters need a domain" if self.model_needs_domains else "this model reads a domain's tag"
            raise InputError(
                f"{kind}; set --domain NAME, or type <domain:NAME> before a line (domains: {', '.join(self.domains)})"
            )
        net_input = dict(net_input)
        if self.model_takes_domains and is_uniform:
            weights = torch.from_numpy(_uniform(len(self.domains)))
            net_input["domain_weights"] = weights.to(tokens.device).expand(len(tokens), -1)
        if self.model_takes_domains and is_tagged.any():
            is_domain = domain_ids.lt(len(self.domains))
            net_input |= {"domain_ids": domain_ids.where(is_domain, NO_ADAPTER), "is_forced": is_tagged}
        if not self.cfg.domain_tags:
            net_input["src_tokens"] = self.typed_domains.take_off(tokens)
            net_input["src_lengths"] = net_input["src_lengths"] - is_tagged.long()
        return net_input


def _uniform(num_domains: int) -> np.ndarray:
    """Return D equal weights."""
    return np.full(num_domains, 1 / num_domains, dtype=np.float32)


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

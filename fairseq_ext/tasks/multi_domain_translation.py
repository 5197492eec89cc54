"""Translation between two languages, of text from several known domains."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask, load_langpair_dataset
from torch import Tensor

from fairseq_ext.data.data_directory import infer_languages
from fairseq_ext.data.domain_pairs import DomainPairs, PairCorpus
from fairseq_ext.domains.names import DOMAINS_FILE, domain_tag
from fairseq_ext.errors import InputError
from fairseq_ext.evaluation.gate_report import GateReport
from fairseq_ext.tasks.multi_domain_task import MultiDomainConfig, MultiDomainTask, read_directory
from fairseq_ext.teacher.labels import read_teacher_probs
from fairseq_ext.training.checkpoints import check_fit

_TAGGED_LINE = re.compile(r"\s*<domain:([^<>\s]+)>\s*(.*)", re.DOTALL)


@dataclass
class MultiDomainTranslationConfig(MultiDomainConfig, TranslationConfig):
    teacher_dir: str = field(
        default="",
        metadata={
            "help": "directory of the domain classifier's probabilities, DOMAIN/SPLIT.npy, as "
            "data-prep/train_teacher.py writes it (default: none)"
        },
    )
    domain_tags: bool = field(
        default=False,
        metadata={"help": "TAG: open every source sentence with its domain's tag (default: no tags)"},
    )
    domain_source: ChoiceEnum(["oracle", "classifier", "none"]) = field(  # type: ignore[valid-type]
        default="oracle",
        metadata={
            "help": "where validation and test sentences have their domain from: their sub-directory, the "
            "classifier's labels in --teacher-dir, or nowhere; training uses the sub-directory (default: oracle)"
        },
    )
    domain: str = field(
        default="",
        metadata={"help": "translate everything as this domain (default: none, see --domain-source)"},
    )
    print_gates: bool = field(
        default=False,
        metadata={
            "help": "print a line G-ID with each sentence's gate weights, averaged over all layers (default: no)"
        },
    )
    gates_output: str = field(
        default="",
        metadata={"help": "write each sentence's gate weights by layer to this JSONL file (default: none)"},
    )


@register_task("multi_domain_translation", dataclass=MultiDomainTranslationConfig)
class MultiDomainTranslationTask(MultiDomainTask, TranslationTask):
    """fairseq's translation task over a data directory with one sub-directory per domain.

    ::

        data-bin/domains.txt                      the domains, sorted
        data-bin/dict.SRC.txt, dict.TGT.txt       with a tag <domain:NAME> for each domain
        data-bin/DOMAIN/SPLIT.SRC-TGT.{SRC,TGT}.{bin,idx}
        teacher/DOMAIN/SPLIT.npy                  --teacher-dir, N×D

    A split named ``test`` is that of all domains in their order, ``test:DOMAIN`` that of one.

    Raises:
        InputError: where directory, dictionary, domains, tags or labels do not fit together.
    """

    cfg: MultiDomainTranslationConfig
    measures = ("loss", "bleu")

    def __init__(
        self,
        cfg: MultiDomainTranslationConfig,
        src_dict: Dictionary,
        tgt_dict: Dictionary,
        domains: list[str],
    ):
        super().__init__(cfg, src_dict, tgt_dict)
        self.set_domains(domains)
        if cfg.domain:
            self.check_option("--domain", [cfg.domain])
        self.tags = [domain_tag(name) for name in domains]
        self.model_takes_domains = False
        self.model_needs_domains = False
        self.gate_report = GateReport(domains, cfg.print_gates, cfg.gates_output)
        if cfg.domain_tags:
            self._require_tags()

    @classmethod
    def setup_task(cls, cfg: MultiDomainTranslationConfig, **_: Any) -> "MultiDomainTranslationTask":
        data = Path(cfg.data)
        domains = read_directory(data)
        if cfg.source_lang is None or cfg.target_lang is None:
            cfg.source_lang, cfg.target_lang = infer_languages(data / domains[0])
        dictionaries = []
        for language in (cfg.source_lang, cfg.target_lang):
            path = data / f"dict.{language}.txt"
            if not path.is_file():
                raise InputError(f"{path}: not found; binarise the data with data-prep/prepare.py")
            dictionaries.append(cls.load_dictionary(str(path)))
        return cls(cfg, *dictionaries, domains)

    def _require_tags(self) -> None:
        for tag in self.tags:
            if self.src_dict.index(tag) == self.src_dict.unk():
                raise InputError(
                    f"{self.cfg.data}/dict.{self.cfg.source_lang}.txt: lacks the tag {tag}; "
                    "prepare the data with this domain list"
                )

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        model = super().build_model(cfg, from_checkpoint)
        model.register_load_state_dict_pre_hook(check_fit)
        self.model_takes_domains = hasattr(model, "needs_domains")
        self.model_needs_domains = getattr(model, "needs_domains", False)
        return model

    # Data

    def load_corpus(self, split: str, domain: str, is_train: bool) -> PairCorpus:
        pairs = self._load_pairs(split, domain)
        domain_id = self.domains.index(domain)
        probs = None
        if self.cfg.teacher_dir:
            probs = read_teacher_probs(Path(self.cfg.teacher_dir), domain, split, self.domains, len(pairs))
        return PairCorpus(pairs, domain_id, self._routed_ids(domain_id, probs, is_train), probs)

    def join_corpora(
        self, corpora: Sequence[PairCorpus], repetitions: Sequence[float] | None, is_train: bool
    ) -> DomainPairs:
        return DomainPairs(
            corpora,
            repetitions,
            tags=[self.src_dict.index(tag) for tag in self.tags] if self.cfg.domain_tags else None,
            domains_to_model=self.model_takes_domains,
            single_domain_batches=not is_train,
        )

    def _load_pairs(self, split: str, domain: str) -> LanguagePairDataset:
        directory = Path(self.cfg.data) / domain
        source, target = self.cfg.source_lang, self.cfg.target_lang
        if any(path.stat().st_size == 0 for path in directory.glob(f"{split}.{source}-{target}.*.bin")):
            raise InputError(f"{directory}: split {split} is empty; a domain needs at least one sentence pair")
        try:
            return load_langpair_dataset(
                str(directory), split, source, self.src_dict, target, self.tgt_dict,
                combine=False,
                dataset_impl=self.cfg.dataset_impl,
                upsample_primary=1,
                left_pad_source=self.cfg.left_pad_source,
                left_pad_target=self.cfg.left_pad_target,
                max_source_positions=self.cfg.max_source_positions,
                max_target_positions=self.cfg.max_target_positions,
                truncate_source=self.cfg.truncate_source,
                pad_to_multiple=self.cfg.required_seq_len_multiple,
            )  # fmt: skip
        except FileNotFoundError:
            raise InputError(
                f"{directory}/{split}.{source}-{target}.{source}.idx: not found; "
                f"binarise this split, or take domain {domain} out of {DOMAINS_FILE}"
            ) from None
        except AssertionError:
            raise InputError(
                f"{directory}: the two sides of split {split} differ in length; binarise it anew"
            ) from None

    def _routed_ids(self, domain_id: int, probs: np.ndarray | None, is_train: bool) -> np.ndarray | int | None:
        """By which domain(s) a corpus is translated: see --domain and --domain-source."""
        if is_train:
            return domain_id
        if self.cfg.domain:
            return self.domains.index(self.cfg.domain)
        source = str(self.cfg.domain_source)
        if source == "classifier":
            if probs is None:
                raise InputError("--domain-source classifier needs the classifier's labels: give --teacher-dir")
            return probs.argmax(axis=1)
        if source == "none" and self.model_needs_domains:
            raise InputError("plain adapters need a domain: use --domain-source oracle or classifier, or --domain NAME")
        return domain_id if source == "oracle" else None

    # Inference

    def get_interactive_tokens_and_lengths(self, lines: Iterable[str], encode_fn: Any) -> tuple[list, list]:
        """Encode typed lines; a tag ``<domain:NAME>`` in front of a line chooses its domain.

        Raises:
            InputError: if a tag names an unknown domain.
        """
        tagged = [self._split_tag(line) for line in lines]
        tokens, lengths = super().get_interactive_tokens_and_lengths([text for _, text in tagged], encode_fn)
        for i, (domain, _) in enumerate(tagged):
            if domain is not None:
                tokens[i] = torch.cat([tokens[i].new_tensor([self._tag_index(domain)]), tokens[i]])
        return tokens, [len(line) for line in tokens]

    def _split_tag(self, line: str) -> tuple[str | None, str]:
        """The domain typed in front of a line, or else --domain, or None; and the rest of the line."""
        match = _TAGGED_LINE.fullmatch(line)
        if match is None:
            return self.cfg.domain or None, line
        if match[1] not in self.domains:
            raise InputError(f"{line.strip()!r}: unknown domain {match[1]}; there are {', '.join(self.domains)}")
        return match[1], match[2]

    def _tag_index(self, domain: str) -> int:
        self._require_tags()
        return self.src_dict.index(domain_tag(domain))

    def build_dataset_for_inference(self, src_tokens: list, src_lengths: list, constraints: Any = None) -> Any:
        self.gate_report.expect(src_tokens)
        return super().build_dataset_for_inference(src_tokens, src_lengths, constraints=constraints)

    def inference_step(
        self,
        generator: Any,
        models: list,
        sample: dict,
        prefix_tokens: Tensor | None = None,
        constraints: Any = None,
    ) -> list:
        if "domain_ids" not in sample:  # typed lines carry their domain as a tag
            typed_tokens = sample["net_input"]["src_tokens"]
            sample = dict(sample, typed_tokens=typed_tokens, net_input=self._read_tags(sample["net_input"]))
        hypotheses = super().inference_step(generator, models, sample, prefix_tokens, constraints)
        if self.gate_report.is_wanted:
            self.gate_report.add(models, sample, hypotheses, self.tgt_dict)
        return hypotheses

    def _read_tags(self, net_input: dict) -> dict:
        """Turn tags in front of typed lines into ``domain_ids``, where tags are not part of the text.

        A tag is replaced by padding, which is the same as taking it away.
        """
        if self.cfg.domain_tags:
            return net_input
        tokens = net_input["src_tokens"]
        first = tokens.ne(self.src_dict.pad()).int().argmax(1)
        rows = torch.arange(len(tokens), device=tokens.device)
        tags = tokens.new_tensor([self.src_dict.index(tag) for tag in self.tags])
        is_tag = tokens[rows, first].unsqueeze(1).eq(tags) & tags.ne(self.src_dict.unk())  # B×D
        tagged = is_tag.any(1)
        tokens = tokens.clone()
        tokens[rows[tagged], first[tagged]] = self.src_dict.pad()
        net_input = dict(net_input, src_tokens=tokens, src_lengths=net_input["src_lengths"] - tagged.long())
        if self.model_needs_domains:
            if not tagged.all():
                raise InputError(
                    "plain adapters need a domain: give --domain NAME, or type <domain:NAME> before a line"
                )
            net_input["domain_ids"] = is_tag.int().argmax(1)
        return net_input

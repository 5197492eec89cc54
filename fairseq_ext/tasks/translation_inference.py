"""Translation of typed lines and of sets by fairseq's search, with domain tags and language tokens."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.data.language_tokens import CutText
from fairseq_ext.models.adapter_transformer import NO_ADAPTER
from fairseq_ext.tasks.gate_report import attach_gates
from fairseq_ext.tasks.sentence_domains import uniform_weights
from fairseq_ext.tasks.translation_options import NONE, UNIFORM
from fairseq_ext.text.subwords import encode_lines, load_subwords, own_model_name


class TranslationInference:
    """Mixin of the translation task: its side of fairseq-generate, fairseq-interactive and the hub."""

    cfg: Any

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

    def get_interactive_tokens_and_lengths(self, lines: Sequence[str], encode_fn: Any) -> tuple[list, list]:
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
            weights = torch.from_numpy(uniform_weights(len(self.domains)))
            net_input["domain_weights"] = weights.to(tokens.device).expand(len(tokens), -1)
        if self.model_takes_domains and is_tagged.any():
            is_domain = domain_ids.lt(len(self.domains))
            net_input |= {"domain_ids": domain_ids.where(is_domain, NO_ADAPTER), "is_forced": is_tagged}
        if not self.cfg.domain_tags:
            net_input["src_tokens"] = self.typed_domains.take_off(tokens)
            net_input["src_lengths"] = net_input["src_lengths"] - is_tagged.long()
        return net_input

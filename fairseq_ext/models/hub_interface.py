"""Translation from Python: fairseq's hub interface, with a domain for every sentence."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq import hub_utils, utils
from fairseq.data import LanguagePairDataset
from torch import Tensor

from fairseq_ext import install
from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.data.data_directory import subword_options
from fairseq_ext.data.language_tokens import CutText

# The domain of all sentences, or a list with one for each; None for an unknown one.
Domains = str | Sequence[str | None] | None


class DomainTranslator(hub_utils.GeneratorHubInterface):
    """Translates text with a model, or an ensemble, of the task ``multi_domain_translation``.

    Create it with :meth:`from_pretrained`. A sentence's domain is given by the tag ``<domain:NAME>`` in front of it, or
    else by ``domain`` of the call, or else by ``domain`` of :meth:`from_pretrained`. Plain adapters (AD) and models
    trained with ``--domain-tags`` (TAG) need a domain; GAD uses that domain's adapter instead of its gates; MIX ignores
    it. Threads can share an object. ``half()``, ``bfloat16()`` and ``to(device)`` work as with any module.
    """

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str | os.PathLike,
        checkpoint_file: str = "model.pt",
        data_name_or_path: str | os.PathLike = ".",
        **options: Any,
    ) -> DomainTranslator:
        """Load checkpoints.

        Args:
            model_name_or_path: directory of the checkpoints.
            checkpoint_file: file names of the checkpoints, separated by colons.
            data_name_or_path: directory with the dictionaries, ``domains.txt`` and, for raw text,
                ``sentencepiece.model``; a path that begins with a dot is relative to ``model_name_or_path``.
            options: options of fairseq's commands that override those in the checkpoint, such as ``domain="med"``.
        """
        install()
        model = Path(model_name_or_path)
        data = model / data_name_or_path if str(data_name_or_path).startswith(".") else Path(data_name_or_path)
        for path in (data, *(model / name for name in checkpoint_file.split(os.pathsep))):
            if not path.exists():
                raise InputError(f"{path}: not found; give the directory of the checkpoint and that of its data")
        if "bpe" not in options:
            options |= subword_options(data)
        loaded = hub_utils.from_pretrained(str(model), checkpoint_file, str(data.resolve()), **options)
        if not hasattr(loaded["task"], "typed_domains"):
            raise InputError(
                f"{model / checkpoint_file}: not trained with --task multi_domain_translation; use another"
            )
        return cls(loaded["args"], loaded["task"], loaded["models"])

    @property
    def domains(self) -> list[str]:
        """Names of the domains, in the order of gate weights."""
        return list(self.task.domains)

    def encode(self, sentence: str, domain: str | None = None) -> Tensor:
        """Encode a sentence as tokens, with the tag of its domain in front, if known."""
        if domain is not None:
            check_choice(domain, self.domains, "domain")
        return self.task.encode_line(sentence, self.subwords, domain)

    def sample(  # type: ignore[override]
        self,
        sentences: str | Sequence[str],
        beam: int = 1,
        verbose: bool = False,
        *,
        domain: Domains = None,
        **options: Any,
    ) -> Any:
        """Translate a sentence or a list of sentences; :meth:`translate` is the same with a beam of 5.

        Args:
            domain: domain of all sentences, or a list with one for each.
            options: search options, named as those of ``fairseq-generate``.
        """
        if isinstance(sentences, str):
            return self.sample([sentences], beam, verbose, domain=domain, **options)[0]
        translations = self._search(sentences, domain, beam=beam, verbose=verbose, **options)
        return [self.decode(hypotheses[0]["tokens"]) for hypotheses in translations]

    def translate_with_gates(
        self, sentences: Sequence[str], beam: int = 5, *, domain: Domains = None, **options: Any
    ) -> list[tuple[str, dict[str, Tensor]]]:
        """Return each translation with its gate weights: ``encoder`` and ``decoder`` L×D, ``tokens`` T×D."""
        if not any(hasattr(model, "gate_weights") for model in self.models):
            raise InputError("these models have no gates; use translate")
        wanted = {"with_gates": True}
        translations = self._search(sentences, domain, beam=beam, inference_step_args=wanted, **options)
        return [(self.decode(hypotheses[0]["tokens"]), hypotheses[0]["gates"]) for hypotheses in translations]

    def score(  # type: ignore[override]
        self, sentences: Sequence[str], translations: Sequence[str], *, domain: Domains = None
    ) -> list[dict[str, Any]]:
        """Return fairseq's scores of given translations: ``score``, the mean log probability of a token, and others."""
        if len(sentences) != len(translations):
            raise InputError(f"{len(translations)} translations for {len(sentences)} sentences; give one for each")
        sources = self._encode_all(sentences, domain)
        languages = self.task.language_tokens
        targets = [
            languages.add_to_target(self.tgt_dict.encode_line(self.subwords(text), add_if_not_exist=False).long())
            for text in translations
        ]
        pairs = LanguagePairDataset(
            sources, [len(line) for line in sources], self.src_dict, targets, [len(line) for line in targets],
            self.tgt_dict, shuffle=False, eos=languages.end,
        )  # fmt: skip
        scorer = self.task.build_generator(self.models, Namespace(score_reference=True))
        scored: dict[int, dict[str, Any]] = {}
        for batch in self._batches(pairs):
            batch = utils.apply_to_sample(lambda tensor: tensor.to(self.device), batch)
            scores = self.task.inference_step(scorer, self.models, batch)
            scored |= {n: hypotheses[0] for n, hypotheses in zip(batch["id"].tolist(), scores, strict=True)}
        return [scored[n] for n in range(len(sentences))]

    def _search(self, sentences: Sequence[str], domain: Any, **options: Any) -> list[list[dict[str, Any]]]:
        translations: list = self.generate(self._encode_all(sentences, domain), **options) if len(sentences) else []
        return translations

    def _encode_all(self, sentences: Sequence[str], domain: Domains) -> list[Tensor]:
        names = [domain] * len(sentences) if domain is None or isinstance(domain, str) else list(domain)
        if len(names) != len(sentences):
            raise InputError(f"{len(names)} domains for {len(sentences)} sentences; give one for each, or one for all")
        return [self.encode(text, name) for text, name in zip(sentences, names, strict=True)]

    def subwords(self, text: str) -> str:
        """Segment a text into subwords separated by spaces; the target dictionary can segment it again."""
        plain = self.tokenize(text)
        return CutText(self.apply_bpe(plain), plain)

    def _batches(self, dataset: Any) -> Any:
        return self.task.get_batch_iterator(
            dataset,
            max_tokens=self.cfg.dataset.max_tokens,
            max_sentences=self.cfg.dataset.batch_size,
            max_positions=self.max_positions,
            disable_iterator_cache=True,
        ).next_epoch_itr(shuffle=False)

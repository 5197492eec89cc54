"""Translation loss with distillation of a domain classifier into the gates (Klimaszewski et al. 2023, §2.2.2)."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.dataclass import ChoiceEnum
from fairseq.logging import metrics
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.option import option

SIDES = ("encoder", "decoder")


@dataclass
class KDGateCriterionConfig(LabelSmoothedCrossEntropyCriterionConfig):
    gate_loss_weight: float = option(0.5, "alpha: weight of the gate loss (default: 0.5, the paper's)")
    gate_loss_temperature: float = option(
        0.1, "tau: temperature of teacher and gates in the gate loss (default: 0.1, the paper's)"
    )
    gate_target: ChoiceEnum(["probs", "log-probs", "domain"]) = option(  # type: ignore[valid-type]
        "probs",
        "target of the gates: softmax(p/tau) of the teacher's probabilities p (probs, as in the paper's "
        "code), softmax(log p/tau) (log-probs, the textbook form), or the true domain "
        "(domain: cross-entropy with hard labels, the paper's ablation) (default: probs)",
    )
    gate_encoder_term: ChoiceEnum(["sentence", "token"]) = option(  # type: ignore[valid-type]
        "sentence",
        "count an encoder gate's loss once per sentence (sentence, as in the paper) or once per target token "
        "(token, as for decoder gates) (default: sentence)",
    )


@register_criterion("label_smoothed_cross_entropy_with_kd_gate", dataclass=KDGateCriterionConfig)
class LabelSmoothedCrossEntropyWithKDGateCriterion(LabelSmoothedCrossEntropyCriterion):
    """``L = L_CE + α · τ² · Σ_layers KL(P_teacher ‖ softmax(g / τ))`` (Eq. 4-5).

    An encoder layer contributes one term per sentence, a decoder layer one per non-padding target token.
    All are summed, as is L_CE, and fairseq divides both by the same sample size.

    The sample contains ``teacher_probs`` (B×D) or, for hard labels, ``domain_ids`` (B,); the model returns
    ``gate_logits`` as ``transformer_gated_adapter`` does. A sentence whose ``teacher_probs`` are all zero has no label;
    it is left out of the gate loss and the logged gate metrics.
    """

    def __init__(
        self,
        task: Any,
        sentence_avg: bool,
        label_smoothing: float,
        gate_loss_weight: float,
        gate_loss_temperature: float,
        gate_target: str,
        gate_encoder_term: str,
        ignore_prefix_size: int = 0,
        report_accuracy: bool = False,
    ):
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)
        self.gate_loss_weight = gate_loss_weight
        self.tau = gate_loss_temperature
        self.gate_target = str(gate_target)
        self.gate_encoder_term = str(gate_encoder_term)

    def forward(self, model: Any, sample: dict, reduce: bool = True) -> tuple[Tensor, int, dict]:
        net_output = model(**sample["net_input"])
        loss, nll_loss = self.compute_loss(model, net_output, sample, reduce=reduce)
        gate_loss, gate_log = self.gate_loss(self.gate_logits(net_output), sample)
        sample_size = len(sample["target"]) if self.sentence_avg else sample["ntokens"]
        if reduce:
            loss = loss + self.gate_loss_weight * gate_loss
        logging_output = {
            "loss": loss.data,
            "nll_loss": nll_loss.data,
            "gate_loss": gate_loss.data,
            "ntokens": sample["ntokens"],
            "nsentences": len(sample["target"]),
            "sample_size": sample_size,
            **gate_log,
        }
        if self.report_accuracy:
            n_correct, total = self.compute_accuracy(model, net_output, sample)
            logging_output |= {"n_correct": n_correct.data, "total": total.data}
        return loss, sample_size, logging_output

    def gate_logits(self, net_output: tuple) -> dict[str, Tensor]:
        """Return the gates' logits, stacked by side: encoder L×B×D, decoder L×B×T×D."""
        gates = net_output[1].get("gate_logits", {})
        if not any(gates.get(side) for side in SIDES):
            raise InputError(
                "this criterion trains gates, but the model has none; use --arch transformer_gated_adapter, "
                "or --criterion label_smoothed_cross_entropy"
            )
        return {side: torch.stack(gates[side]) for side in SIDES if gates[side]}

    def target(self, sample: dict, num_domains: int) -> Tensor:
        """Return P_τ, the target of the gates: B×D, rows sum to one or, without a label, are all zero."""
        if self.gate_target == "domain":
            if sample.get("domain_ids") is None:
                raise InputError("--gate-target domain needs domains; use --task multi_domain_translation")
            return F.one_hot(sample["domain_ids"], num_domains).float()
        probs = sample.get("teacher_probs")
        if probs is None:
            raise InputError("the gates have no teacher; give --teacher-dir, written by fairseq-ext teacher")
        if probs.size(1) > num_domains:  # the class base, which these gates do not have
            probs = F.normalize(probs[:, :num_domains], p=1, dim=-1)
        scores = probs.float().log() if self.gate_target == "log-probs" else probs.float()
        return (scores / self.tau).softmax(-1).where(probs.any(-1, keepdim=True), 0.0)

    def gate_loss(self, gate_logits: dict[str, Tensor], sample: dict) -> tuple[Tensor, dict[str, Any]]:
        """Return the gate loss, summed over layers and terms, and its log; logits: encoder L×B×D, decoder L×B×T×D."""
        target = self.target(sample, next(iter(gate_logits.values())).size(-1))
        is_labelled = target.any(-1)  # B
        is_token = sample["target"].ne(self.padding_idx) & is_labelled.unsqueeze(1)  # B×T
        rows = is_labelled if self.sentence_avg else is_token
        loss, log = target.new_zeros(()), {"gate_sample_size": rows.sum(), "gate_labelled": is_labelled.sum()}
        for side, logits in gate_logits.items():
            terms_of_row = is_token if side == "decoder" else is_labelled
            # B×D, or B×1×D for all target positions.
            goal = target.unsqueeze(1) if side == "decoder" else target
            log_probs = (logits / self.tau).log_softmax(-1)
            divergence = self.tau**2 * F.kl_div(log_probs, goal.expand_as(log_probs), reduction="none").sum(-1)
            divergence = divergence * terms_of_row  # L×B or L×B×T
            weighted = divergence
            if side == "encoder" and self.gate_encoder_term == "token":
                weighted = divergence * is_token.sum(1)
            loss = loss + weighted.sum()
            hits = logits.argmax(-1).eq(goal.argmax(-1)) & terms_of_row
            log[f"gate_terms_{side}"] = terms_of_row.sum()
            by_layer = {"loss": divergence.detach().flatten(1).sum(1), "hits": hits.flatten(1).sum(1)}
            for kind, values in by_layer.items():
                log |= {f"gate_{kind}_{side}_{layer}": value for layer, value in enumerate(values.unbind())}
        return loss, log

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict]) -> None:
        """Aggregate over batches and workers; gate losses are per term and in bits, like fairseq's losses."""
        super().reduce_metrics(logging_outputs)

        total = _totals(logging_outputs)
        if sample_size := total.get("gate_sample_size", 0):
            metrics.log_scalar("gate_loss", total["gate_loss"] / sample_size / math.log(2), sample_size, round=4)
        if rows := total.get("nsentences", 0):
            metrics.log_scalar("gate_labelled", 100 * total["gate_labelled"] / rows, rows, round=2)
        for side in SIDES:
            terms = total.get(f"gate_terms_{side}", 0)
            layers = sum(key.startswith(f"gate_loss_{side}_") for key in total) if terms else 0
            for layer in range(layers):
                bits = total[f"gate_loss_{side}_{layer}"] / terms / math.log(2)
                hits = 100 * total[f"gate_hits_{side}_{layer}"] / terms
                metrics.log_scalar(f"gate_loss_{side}_{layer}", bits, terms, round=4)
                metrics.log_scalar(f"gate_accuracy_{side}_{layer}", hits, terms, round=2)


def _totals(logs: list[dict]) -> dict[str, float]:
    """Sum the logged gate values over batches, with one read from the device."""
    keys = [key for key in (logs[0] if logs else ()) if key == "nsentences" or key.startswith("gate_")]
    sums = [sum(log.get(key, 0) for log in logs) for key in keys]
    if not sums:
        return {}
    device = next((value.device for value in sums if isinstance(value, Tensor)), None)
    # float64 is exact for large counts.
    values = torch.stack([torch.as_tensor(value, dtype=torch.float64, device=device) for value in sums])
    return dict(zip(keys, values.tolist(), strict=True))

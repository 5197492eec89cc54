"""Language modelling of text from several known domains."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, MonolingualDataset
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from omegaconf import DictConfig

from fairseq_ext.base.domain_names import DOMAINS_FILE
from fairseq_ext.base.domain_tree import DomainTree, names_of_paths
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.option import option
from fairseq_ext.data.data_directory import split_directories
from fairseq_ext.data.multi_domain_dataset import DomainCorpus, MultiDomainDataset
from fairseq_ext.models.base_layout import size_by_base
from fairseq_ext.models.causal_lm import note_base
from fairseq_ext.models.checkpoints import check_fit
from fairseq_ext.models.transformer_lm_hier_adapter import embed_tree, node_weights_of
from fairseq_ext.modules.language_model_options import (
    CAUSAL_LM,
    HIERARCHICAL_ADAPTERS,
    LANGUAGE_MODELING_TASK,
    TOPIC_MODEL,
)
from fairseq_ext.tasks.multi_domain_task import DataSplit, MultiDomainConfig, MultiDomainTask

_ON_BASES = (HIERARCHICAL_ADAPTERS, TOPIC_MODEL, CAUSAL_LM)  # models that take the size of their base


@dataclass
class BlockCorpus(DomainCorpus):
    """The blocks of one domain (a ``MonolingualDataset``), which never contain text of another.

    Attributes:
        node_weights: N routing weights, shared by all blocks; None if the model has no adapters.
    """

    node_weights: np.ndarray | None = None


class DomainBlocks(MultiDomainDataset[BlockCorpus]):
    """Batches of blocks, with ``node_weights`` (B×N) in ``net_input`` for models that route by them."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        return super().__getitem__(index) | {"node_weights": self.locate(index)[0].node_weights}

    def add_to_batch(self, batch: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        weights = [row["node_weights"] for row in rows]
        if all(row is not None for row in weights):
            batch["net_input"]["node_weights"] = torch.from_numpy(np.stack(weights))


@dataclass
class MultiDomainLanguageModelingConfig(MultiDomainConfig, LanguageModelingConfig):
    single_domain_batches: bool = option(
        False, "train on batches of one domain each, as in the paper (default: domains are mixed)"
    )
    domain: str = option("", "validate, score or generate with this domain (default: each text's domain)")
    paths: str = option(
        "",
        "validate, score or generate with the average of these paths of the tree: domains or leaves "
        "separated by commas, all, none for the base model, or FILE.json with paths for each domain of the "
        "data, as written by fairseq-ext paths (default: each domain's path)",
    )
    topic: int = option(
        -1,
        "validate, score or generate with this topic only, from 0 to --num-topics (default: -1, a mixture of all)",
    )


@register_task(LANGUAGE_MODELING_TASK, dataclass=MultiDomainLanguageModelingConfig)
class MultiDomainLanguageModelingTask(MultiDomainTask, LanguageModelingTask):
    """fairseq's language modelling task over a data directory with one sub-directory per domain.

    ::

        data-bin/domains.txt                      sorted names of the domains
        data-bin/dict.txt
        data-bin/DOMAIN/SPLIT.{bin,idx}           cut into blocks of --tokens-per-sample

    A split such as ``test`` contains all domains in order, ``test:DOMAIN`` one domain. Models with a domain tree get
    the routing weights of every row, ``node_weights`` (B×N): those of the path of its domain or, in validation and
    inference, of --domain or --paths. Other language models can be trained and evaluated too.
    """

    measures = ("loss", "ppl")
    limits = {
        **MultiDomainTask.limits,
        "pad_to_fixed_bsz": ((False, None), "added rows would be of no domain; leave the option out"),
        "use_plasma_view": ((False,), "plasma is no longer part of pyarrow; remove the option"),
    }

    def __init__(
        self,
        cfg: MultiDomainLanguageModelingConfig,
        dictionary: Dictionary,
        output_dictionary: Dictionary | None = None,
        targets: list[str] | None = None,
    ):
        super().__init__(cfg, dictionary, output_dictionary, targets)
        self.cfg = cfg
        self.set_directories()
        self.tree: DomainTree | None = None
        self._has_model = False
        routes = {"--domain": cfg.domain, "--paths": cfg.paths}
        self._routing = [name for name, value in routes.items() if value]
        if len(self._routing) > 1:
            raise InputError(f"{' and '.join(self._routing)} cannot be used together; give only one of them")

    @classmethod
    def setup_dictionary(cls, cfg: MultiDomainLanguageModelingConfig, **kwargs: Any) -> tuple[Dictionary, Dictionary]:
        path = split_directories(cfg.data)[0] / "dict.txt"
        if not path.is_file():
            raise InputError(f"{path}: not found; binarise the data with fairseq-ext prepare")
        return super().setup_dictionary(cfg, **kwargs)

    def dictionaries(self) -> dict[str, Dictionary]:
        return {"dict.txt": self.dictionary}

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        if isinstance(cfg, DictConfig) and not from_checkpoint and cfg._name in _ON_BASES:
            size_by_base(cfg, MODEL_DATACLASS_REGISTRY[cfg._name])
        # Done here, because the model's changes would not reach checkpoints.
        note_base(cfg)
        if hasattr(cfg, "tree_json"):
            embed_tree(cfg, self.domains)
        model = super().build_model(cfg, from_checkpoint)
        model.register_load_state_dict_pre_hook(check_fit)
        tree = getattr(model, "tree", None)
        if self._has_model and tree != self.tree:
            raise InputError("these models have different trees, or some have none; use each model alone")
        self.tree, self._has_model = tree, True
        if tree is None and self._routing:
            raise InputError(f"{self._routing[0]}: the model has no adapters; remove the option")
        if self.cfg.topic >= 0:
            if self.cfg.topic > getattr(model, "num_topics", -1):
                raise InputError(f"--topic {self.cfg.topic}: the model has no such topic; remove the option")
            model.decoder.forced_topic = self.cfg.topic
        return model

    # Data

    def load_corpus(self, split: DataSplit, domain: str) -> BlockCorpus:
        blocks = self._load_blocks(split, domain)
        weights = None if self.tree is None else self._weights_of(domain, split.is_train)
        return BlockCorpus(blocks, self.domains.index(domain), weights)

    def join_corpora(
        self, corpora: Sequence[BlockCorpus], repetitions: Sequence[float] | None, is_train: bool
    ) -> DomainBlocks:
        return DomainBlocks(
            corpora,
            repetitions,
            seed=self.cfg.seed,
            single_domain_batches=self.cfg.single_domain_batches or not is_train,
        )

    def _load_blocks(self, split: DataSplit, domain: str) -> MonolingualDataset:
        """Load the blocks of a domain with fairseq's own task and options."""
        directory = split.directory / domain
        file = directory / f"{split.name}.bin"
        if not file.is_file() or not file.with_suffix(".idx").is_file():
            raise InputError(f"{file}: not found; binarise this split, or remove domain {domain} from {DOMAINS_FILE}")
        if file.stat().st_size == 0:
            raise InputError(f"{directory}: split {split.name} is empty; a domain needs at least one line")
        cfg = copy.copy(self.cfg)
        cfg.data = str(directory)
        task = LanguageModelingTask(cfg, self.dictionary, self.output_dictionary, self.targets)
        task.load_dataset(split.name, combine=split.is_combined)
        return task.datasets[split.name]

    def _weights_of(self, domain: str | None, is_train: bool = False) -> np.ndarray:
        """Return the routing weights of a domain's text, or of text of unknown domain (None)."""
        assert self.tree is not None
        if self.cfg.paths and not is_train:
            return self.tree.path_weights(names_of_paths(self.cfg.paths, self.tree, domain))
        if self.cfg.domain and not is_train:
            domain = self.cfg.domain
        remedy = "give --domain NAME or --paths NAMES"
        if domain is None:
            raise InputError(f"typed text has no domain, but these adapters need one; {remedy}")
        if domain not in self.tree.domains:
            listed = ", ".join(sorted(self.tree.domains))
            raise InputError(f"domain {domain}: not in the model's tree, which has {listed}; {remedy}")
        return self.tree.path_weights([domain])

    # Scoring

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        limit = kwargs.get("max_positions")
        are_cut = str(self.cfg.sample_break_mode) == "none"  # otherwise a line may be too long
        if limit is not None and are_cut and isinstance(dataset, DomainBlocks):
            longest = int(dataset.sizes.max())
            if longest > limit:
                raise InputError(
                    f"--tokens-per-sample: blocks of {longest} tokens are too long for the model; set at most {limit}"
                )
        return super().get_batch_iterator(dataset, *args, **kwargs)

    def eval_lm_dataloader(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("context_window", 0) > 0 and len(dataset.corpora) > 1:
            raise InputError(
                "--context-window would include other domains; evaluate one domain with --gen-subset test:NAME"
            )
        return super().eval_lm_dataloader(dataset, *args, **kwargs)

    # Inference

    def inference_step(self, generator: Any, models: list, sample: dict, *args: Any, **options: Any) -> list:
        """Continue each prompt with the paths of its domain, or of --domain or --paths."""
        if self.tree is None:
            return super().inference_step(generator, models, sample, *args, **options)
        # Typed text has no weights: B×N for each prompt, or 1×N for all.
        weights = sample["net_input"].get("node_weights")
        if weights is None:
            weights = torch.from_numpy(self._weights_of(None)).unsqueeze(0)
        with node_weights_of(weights):
            return super().inference_step(generator, models, sample, *args, **options)

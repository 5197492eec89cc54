"""Select paths of an induced tree for unseen domains (hierarchical adapters §4.5): ``fairseq-ext paths``."""

from __future__ import annotations

import json
from pathlib import Path

from fairseq_ext.engine.fairseq_cli import quieten_fairseq
from fairseq_ext.inputs.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.inputs.json_file import read_json
from fairseq_ext.inputs.path_chooser import PathChooser
from fairseq_ext.recipes.encoding import LanguageModel, block_length, draw_blocks, log
from fairseq_ext.recipes.hierarchy.induce_tree import read_record
from fairseq_ext.recipes.hierarchy.induction import PATHS_FILE, UNIFORM, VOTES_FILE, PathChoice


def write_paths(
    folder: Path, checkpoint: Path, tree: Path, data: Path, options: PathChoice, *, cpu: bool = False
) -> None:
    """Write ``paths.json`` and ``votes.json``; arguments as of ``paths_step``."""
    quieten_fairseq()
    record, chooser = read_record(tree), PathChooser.load(tree)
    chooser.check_number(options.num_paths)
    model = LanguageModel.load(checkpoint, data, cpu=cpu)
    length = block_length(record.options.tokens, model)
    paths, votes = {}, {}
    for name in read_domain_names(data / DOMAINS_FILE):
        log(f"choosing paths for {name}")
        blocks = draw_blocks(
            *(data, name, options.split, model.dictionary),
            length=length,
            count=options.sequences,
            seed=options.seed,
            takes_fewer=True,
        )
        # The model reads from left to right, so the first tokens' states are those of the first tokens alone.
        states = model.encode(blocks[:, : options.choose_tokens or length])
        elected = chooser.elect(states, options.num_paths)
        paths[name] = list(elected) if options.path_weights == UNIFORM else elected
        votes[name] = dict(sorted(chooser.votes(states).items()))
    (folder / PATHS_FILE).write_text(json.dumps(paths, indent=1) + "\n", encoding="utf-8")
    (folder / VOTES_FILE).write_text(json.dumps(votes, indent=1) + "\n", encoding="utf-8")


def describe_paths(directory: Path, tree: Path) -> str:
    """The selected paths with their shares of the votes, one in each line (the paper's Table 9)."""
    paths, votes = (read_json(directory / name, "choose again") for name in (PATHS_FILE, VOTES_FILE))
    labels = {each.leaf: each.label for each in read_record(tree).clusters}
    lines = []
    for domain, leaves in paths.items():
        total = sum(votes[domain].values())
        lines += [f"{domain}  {votes[domain][leaf] / total:6.1%}  {labels[leaf]}" for leaf in leaves]
    return "\n".join(lines)

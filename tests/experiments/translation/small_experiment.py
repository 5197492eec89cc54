"""An experiment of two domains whose translations are written by hand: what scoring finds, without any training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.data.teacher_labels import label_path, write_probs, write_teacher_record
from fairseq_ext.experiments.translation.config import Translation, load_config
from fairseq_ext.text.text_files import write_lines
from tests.small_corpus import write_config

REFERENCES = {
    "law": ["das Gericht ist heute offen", "alle Rechte sind vorbehalten", "der Vertrag gilt ab heute"],
    "med": ["zwei Tabletten jeden Tag", "außer Reichweite von Kindern aufbewahren"],
}
NEWS = ["der Minister trat gestern zurück", "die Preise steigen weiter"]
TRAIN_SIZES = {"law": 3, "med": 1}
MISCLASSIFIED = ("law", 1)  # the only sentence that the classifier takes for another domain's
SYSTEMS: dict[str, dict[str, Any]] = {
    "mix": {},
    "gad": {"from": "mix", "seeds": [1, 2], "arch": "transformer_gated_adapter"},
    "ft": {"from": "mix", "per_domain": True},
}


def write_experiment(
    root: Path, translations: Mapping[str, Mapping[str, Sequence[str]]], evaluate: Mapping[str, Any]
) -> Translation:
    """Write an experiment file, its test sets, the classifier's labels, and translations.

    ``translations`` are lines by ``translations/RUN`` or ``extra/RUN``, and by test set.
    """
    work = root / "work"
    extra = {f"extra-sets/{name}": NEWS for name in {**evaluate.get("ood", {}), **evaluate.get("tests", {})}}
    tests = {f"splits/{domain}/test": lines for domain, lines in REFERENCES.items()}
    for name, lines in {**tests, **extra}.items():
        write_lines(work / f"{name}.de", lines)
        write_lines(work / f"{name}.en", [f"source of: {line}" for line in lines])
    for domain, size in TRAIN_SIZES.items():
        write_lines(work / "splits" / domain / "train.de", ["Zeile"] * size)
    write_lines(work / "splits/domains.txt", REFERENCES)
    write_teacher_record(work / "teacher", list(REFERENCES), "tfidf", {})
    for number, (domain, lines) in enumerate(REFERENCES.items()):
        guesses = [1 - number if (domain, row) == MISCLASSIFIED else number for row in range(len(lines))]
        write_probs(label_path(work / "teacher", domain, "test"), np.eye(len(REFERENCES))[guesses])
    for folder, sets in translations.items():
        for name, lines in sets.items():
            write_lines(work / folder / f"{name}.de", lines)
    path = write_config(
        root / "small.yaml",
        root,
        corpora={"domains": {domain: [f"{domain}.tsv"] for domain in REFERENCES}},
        train={"systems": SYSTEMS},
        translate={"outputs": {name: {"system": name} for name in SYSTEMS}},
        evaluate=dict(evaluate),
    )
    return load_config(path)

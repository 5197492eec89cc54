"""A small translation experiment: every kind of system on two domains, text of neither, and test sets of one's own."""

from pathlib import Path
from typing import Any

from tests.small_corpus import write_config, write_corpora

PLAIN = {"criterion": "label_smoothed_cross_entropy", "max-epoch": 1}
TRAIN: dict[str, Any] = {
    "common": {"optimizer": "adam", "lr": 0.01, "max-tokens": 400, "cpu": True, "num-workers": 0,
               "share-all-embeddings": True},
    "systems": {
        "mix": {**PLAIN, "arch": "transformer_tiny", "max-epoch": 6},
        "mix-continued": {**PLAIN, "from": "mix", "arch": "transformer_tiny"},
        "ft": {**PLAIN, "from": "mix", "per_domain": True, "arch": "transformer_tiny"},
        "tag": {**PLAIN, "from": "mix", "domain-tags": True, "arch": "transformer_tiny"},
        "ad": {**PLAIN, "from": "mix", "seeds": [1, 2], "arch": "transformer_domain_adapter_tiny"},
        "gad": {
            "from": "ad", "seeds": [2], "uses_teacher": True, "arch": "transformer_gated_adapter_tiny",
            "criterion": "label_smoothed_cross_entropy_with_kd_gate", "max-epoch": 1,
            "gate-inputs": "states,source", "gate-pairs": 64,
        },
    },
}  # fmt: skip
OUTPUTS = {
    "mix": {"system": "mix"},
    "mix-continued": {"system": "mix-continued"},
    "ft": {"system": "ft"},
    "tag-oracle": {"system": "tag"},
    "tag-classifier": {"system": "tag", "domain-source": "classifier"},
    "ad-classifier": {"system": "ad", "domain-source": "classifier"},
    "ad-uniform": {"system": "ad", "domain-source": "uniform"},
    "gad": {"system": "gad", "domain-source": "none", "gates": True},
}
TRANSLATE: dict[str, Any] = {"common": {"beam": 2, "max-tokens": 400, "cpu": True, "max-len-b": 12}, "outputs": OUTPUTS}
SETS = {
    # Written as the corpora are not: punctuation to normalise, words of both domains.
    "NEWS.en": "show the red tree\nopen the  old account\n\nfind “the” seed\n",
    "NEWS.de": "zeige: Baum\nöffne: Konto\nleer\nfinde „den“ Samen\n",
    "FORUM.en": "close the blue loan\nshow the green bed\n",
    "FORUM.de": "schließe: Darlehen\nzeige: Beet\n",
    "PLANTS.en": "find the old root\nchange the red rate\n",
    "PLANTS.de": "finde: Wurzel\nändere: Zins\n",
}


def write_translation_experiment(folder: Path, train: dict[str, Any] = TRAIN, **evaluate: Any) -> Path:
    """Write corpora and the experiment file, and return the latter; it works in ``work`` beside it."""
    news = folder / "news"
    news.mkdir(parents=True)
    tests = {
        "FORUM": {"corpus": str(news / "FORUM.{lang}")},
        "PLANTS": {"corpus": str(news / "PLANTS.{lang}"), "domain": "garden"},
    }
    evaluate = {"ood": {"NEWS": str(news / "NEWS.{lang}")}, "tests": tests, "resamples": 100, **evaluate}
    for name, text in SETS.items():
        (news / name).write_text(text, encoding="utf-8")
    outputs = {name: entry for name, entry in OUTPUTS.items() if entry["system"] in train["systems"]}
    return write_config(
        folder / "translation.yaml",
        write_corpora(folder / "corpora"),
        clean={"normalise": {}},
        train=train,
        translate={**TRANSLATE, "outputs": outputs},
        evaluate=evaluate | ({"speed": ["ad-classifier"]} if "ad-classifier" in outputs else {}),
    )

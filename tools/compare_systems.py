#!/usr/bin/env python3
"""Compare exported systems by domain: chrF on test sets, and translations that equal those of the first system.

Gated systems use their gates. Plain adapters use the domain of the set, or no adapter if they lack the domain.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairseq_ext.base.own_python import use_own_python

use_own_python()

from fairseq_ext.base.errors import run_command

BLOCK = 50


def main() -> None:
    """Print a Markdown table with one column per system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("splits", type=Path, help="folder with DOMAIN/test.LANG, such as an experiment's splits/")
    parser.add_argument("system", type=Path, nargs="+", help="exported systems of one language pair")
    options = parser.parse_args()
    names = sorted(path.parent.name for path in options.splits.glob("*/test.*") if path.suffix)
    names = list(dict.fromkeys(names))
    columns = [_column(system, options.splits, names) for system in options.system]
    print("| domain | " + " | ".join(system.name for system in options.system) + " |")
    print("|---|" + "---:|" * len(columns))
    for name in names:
        cells = []
        for column in columns:
            score, lines = column[name]
            same = sum(line == other for line, other in zip(lines, columns[0][name][1], strict=True))
            cells.append(f"{score:.1f}" + ("" if column is columns[0] else f" ({same}/{len(lines)} the same)"))
        print(f"| {name} | " + " | ".join(cells) + " |")


def _column(system: Path, splits: Path, names: list[str]) -> dict[str, tuple[float, list[str]]]:
    """Return the score and translations of a system, by domain."""
    from sacrebleu.metrics import CHRF

    from fairseq_ext.serve.runtime.requests import Request
    from fairseq_ext.serve.runtime.translator import SystemTranslator
    from fairseq_ext.text.text_files import read_lines

    translator = SystemTranslator.load(system)
    source, target = translator.languages
    found = {}
    for name in names:
        route = next(route for route in ("gates", name, "base") if route in translator.routes)
        requests = [Request(line, route) for line in read_lines(splits / name / f"test.{source}")]
        lines: list[str] = []
        # Blocks do not depend on the system, because the composition of batches affects the last bits.
        for start in range(0, len(requests), BLOCK):
            answers = translator.translate(requests[start : start + BLOCK], with_gates=False)
            lines += [answer.candidates[0].text for answer in answers]
        score = CHRF().corpus_score(lines, [read_lines(splits / name / f"test.{target}")]).score
        found[name] = (score, lines)
    return found


if __name__ == "__main__":
    run_command(main)
